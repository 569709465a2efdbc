"""Holds lines against signatures."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from xpubuild.explain.line import Line
from xpubuild.explain.normalise import canonical
from xpubuild.explain.prefilter import trigger
from xpubuild.explain.signature import Fact, Matcher, Nearby, Signature

# A matcher whose line is everywhere and whose surroundings never fit must not cost more and more.
_MOST_LOOKS = 2000
_EXCERPT = 400
_MOST_GROUPS = 1000


@dataclass(frozen=True)
class Match:
    """A signature matches at a line, if the facts that its matcher requires are true."""

    signature: Signature
    matcher: Matcher
    number: int
    excerpt: str


@dataclass
class _Entry:
    signature: Signature
    matcher: Matcher
    line: re.Pattern[str]
    looks: int = 0
    done: bool = False


@dataclass(frozen=True)
class _FactEntry:
    name: str
    literals: tuple[str, ...]
    line: re.Pattern[str]


@dataclass
class Matching:
    """The state of one log: what was found in it so far; each matcher is kept at the first line it fits."""

    signatures: Iterable[Signature]
    known: Iterable[Fact]
    matches: list[Match] = field(default_factory=list)
    facts: set[str] = field(default_factory=set)
    #: Whether the last line meant nothing to any rule, whatever stands round it.
    idle: bool = True

    def __post_init__(self) -> None:
        self._entries: dict[str, list[_Entry]] = {}
        self._groups: dict[frozenset[str], dict[str, list[_Entry]]] = {}
        self._triggered: dict[str, dict[str, list[_Entry]]] = {}
        for signature in self.signatures:
            for matcher in signature.match:
                self._add(_Entry(signature, matcher, _compiled(matcher.line)))
        self._facts = [_FactEntry(fact.name, fact.find, _compiled(fact.line)) for fact in self.known]
        self.literals = set(self._triggered).union(*(fact.literals for fact in self._facts))

    def _add(self, entry: _Entry) -> None:
        for literal in entry.matcher.find:
            entries = self._entries.setdefault(literal, [])
            entries.append(entry)
            for text in map(trigger, entry.matcher.beside or (literal,)):
                self._triggered.setdefault(text, {})[literal] = entries

    def consider(self, line: Line, triggers: Collection[str] | None = None) -> list[Match]:
        """Look at one line and return what is new; ``triggers`` are the ``literals`` that are in it."""
        new: list[Match] = []
        joined = line.joined()
        self.idle = not joined
        for entries in self._candidates(line.low, triggers):
            new += self._try(entries, line, line.canonical)
        if joined:
            for entries in self._candidates(joined.lower(), None):
                new += self._try(entries, line, joined)
        for fact in (item for item in self._facts if item.name not in self.facts):
            if any(text in line.low for text in fact.literals) and fact.line.search(line.canonical):
                self.facts.add(fact.name)
                self.idle = False
        self.matches += new
        return new

    def _candidates(self, low: str, triggers: Collection[str] | None) -> list[list[_Entry]]:
        if triggers is None:
            return [entries for literal, entries in self._entries.items() if literal in low]
        return [entries for literal, entries in self._group(frozenset(triggers)).items() if literal in low]

    def _group(self, triggers: frozenset[str]) -> dict[str, list[_Entry]]:
        """Return what a line with these triggers could match: few literals rather than all."""
        found = self._groups.get(triggers)
        if found is None:
            found = {}
            for name, group in self._triggered.items():
                if any(text in name for text in triggers):
                    found.update(group)
            if len(self._groups) < _MOST_GROUPS:
                self._groups[triggers] = found
        return found

    def _try(self, entries: Iterable[_Entry], line: Line, text: str) -> Iterable[Match]:
        for entry in entries:
            if entry.done or entry.looks >= _MOST_LOOKS or not entry.line.search(text):
                continue
            self.idle = False
            if text is not line.canonical and line.stands_below(entry.line):
                continue
            if entry.matcher.before or entry.matcher.after or entry.matcher.unless:
                entry.looks += 1
                if not _surroundings_fit(entry.matcher, line, text):
                    continue
            entry.done = True
            yield Match(entry.signature, entry.matcher, line.number, _excerpt(line, text))


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def _surroundings_fit(matcher: Matcher, line: Line, text: str) -> bool:
    if not all(_near(item, line.window.before(item.within)) for item in matcher.before):
        return False
    if not all(_near(item, line.window.after(item.within)) for item in matcher.after):
        return False
    unless = matcher.unless
    if unless is None:
        return True
    return not (
        (unless.line is not None and _compiled(unless.line).search(text))
        or (unless.before is not None and _near(unless.before, line.window.before(unless.before.within)))
        or (unless.after is not None and _near(unless.after, line.window.after(unless.after.within)))
    )


def _near(condition: Nearby, lines: Sequence[str]) -> bool:
    pattern = _compiled(condition.pattern)
    return any(pattern.search(canonical(text)) for text in lines)


def _excerpt(line: Line, text: str) -> str:
    shown = line.text.strip() if text is line.canonical else text
    return shown if len(shown) <= _EXCERPT else shown[: _EXCERPT - 4] + " ..."
