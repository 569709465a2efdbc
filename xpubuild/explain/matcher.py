"""Holds lines against signatures."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xpubuild.explain.firsterror import PASSED
from xpubuild.explain.line import Line
from xpubuild.explain.normalise import canonical
from xpubuild.explain.prefilter import trigger
from xpubuild.explain.signature import Fact, Matcher, Nearby, Signature
from xpubuild.frozen import frozen

# A matcher whose line is everywhere and whose surroundings never fit must not cost more and more.
_MOST_LOOKS = 2000
_EXCERPT = 400
#: Beginning of the names of facts that say which distribution a log is from.
OF_LOG = "log-of-"
_MOST_GROUPS = 1000
_WARNING = re.compile(
    r"\b[Ww]arning(?: #\d{1,6})?:|\bWARNING\b|\w{1,40}Warning\b|^-- |^CMake Warning|: note: "
)
_DIGITS = "0123456789"  # the alternatives of a pattern name one entity path, path2, ...


@frozen
class Match:
    """A signature matches at a line, if the facts that its matcher requires are true."""

    signature: Signature
    matcher: Matcher
    number: int
    excerpt: str
    entities: Mapping[str, str] = field(default_factory=dict)


@frozen
class _Entry:
    number: int
    signature: Signature
    matcher: Matcher

    @property
    def line(self) -> re.Pattern[str]:
        """The pattern; most are never needed, and compiling all takes half a second."""
        return _compiled(self.matcher.line)


@frozen
class _FactEntry:
    name: str
    literals: tuple[str, ...]
    pattern: str


class Index:
    """What lines are looked up in: made once of signatures and facts, for all logs."""

    def __init__(self, signatures: Iterable[Signature], known: Iterable[Fact]) -> None:
        self._entries: dict[str, list[_Entry]] = {}
        self._groups: dict[frozenset[str], dict[str, list[_Entry]]] = {}
        self.triggered: dict[str, dict[str, list[_Entry]]] = {}
        matchers = ((signature, matcher) for signature in signatures for matcher in signature.match)
        for number, (signature, matcher) in enumerate(matchers):
            self._add(_Entry(number, signature, matcher))
        self.facts = [_FactEntry(fact.name, fact.find, fact.line) for fact in known]
        self.literals = frozenset(self.triggered).union(*(fact.literals for fact in self.facts))

    def _add(self, entry: _Entry) -> None:
        for literal in entry.matcher.find:
            entries = self._entries.setdefault(literal, [])
            entries.append(entry)
            for text in map(trigger, entry.matcher.beside or (literal,)):
                self.triggered.setdefault(text, {})[literal] = entries

    def candidates(self, low: str, triggers: Collection[str] | None) -> list[list[_Entry]]:
        """Return the matchers that a line in small letters could fit; ``triggers`` are those in it."""
        if triggers is None:
            return [entries for literal, entries in self._entries.items() if literal in low]
        return [entries for literal, entries in self._group(frozenset(triggers)).items() if literal in low]

    def _group(self, triggers: frozenset[str]) -> dict[str, list[_Entry]]:
        """Return what a line with these triggers could match: few literals rather than all."""
        found = self._groups.get(triggers)
        if found is None:
            found = {}
            for name, group in self.triggered.items():
                if any(text in name for text in triggers):
                    found.update(group)
            if len(self._groups) < _MOST_GROUPS:
                self._groups[triggers] = found
        return found


@dataclass
class Matching:
    """The state of one log: what was found in it so far; each matcher is kept at the first line it fits."""

    index: Index
    matches: list[Match] = field(default_factory=list)
    facts: set[str] = field(default_factory=set)
    #: Whether the last line meant nothing to any rule, whatever stands round it.
    idle: bool = True
    _looks: Counter[int] = field(default_factory=Counter, init=False)
    _done: set[int] = field(default_factory=set, init=False)

    def wanted(self) -> set[str]:
        """Return the literals of signatures and facts that can still bring something new.

        Kinds and the distribution of a log are looked for in some parts of it only.
        """
        facts = (fact for fact in self.index.facts if not fact.name.startswith(OF_LOG))
        return {
            text
            for text, group in self.index.triggered.items()
            if any(map(self._has_signature, group.values()))
        }.union(*(fact.literals for fact in facts if fact.name not in self.facts))

    def _has_signature(self, entries: Iterable[_Entry]) -> bool:
        return any(not (entry.signature.general or entry.number in self._done) for entry in entries)

    def consider(self, line: Line, triggers: Collection[str] | None = None) -> list[Match]:
        """Look at one line and return what is new; ``triggers`` are the ``literals`` that are in it."""
        new: list[Match] = []
        joined = line.joined()
        self.idle = not joined
        for entries in self.index.candidates(line.low, triggers):
            new += self._try(entries, line, line.canonical)
        if joined:
            for entries in self.index.candidates(joined.lower(), None):
                new += self._try(entries, line, joined)
        for fact in (item for item in self.index.facts if item.name not in self.facts):
            if any(map(line.low.__contains__, fact.literals)) and _compiled(fact.pattern).search(
                line.canonical
            ):
                self.facts.add(fact.name)
                self.idle = False
        self.matches += new
        return new

    def _try(self, entries: Iterable[_Entry], line: Line, text: str) -> Iterable[Match]:
        for entry in entries:
            if entry.number in self._done or self._looks[entry.number] >= _MOST_LOOKS:
                continue
            found = entry.line.search(text)
            if not found or _is_calm(entry, text):
                continue
            self.idle = False
            if text is not line.canonical and line.stands_below(entry.line):
                continue
            if entry.matcher.before or entry.matcher.after or entry.matcher.unless:
                self._looks[entry.number] += 1
                if not _surroundings_fit(entry.matcher, line, text):
                    continue
            self._done.add(entry.number)
            entities = _with_near(entry.signature.also, line, text, _named(found))
            yield Match(entry.signature, entry.matcher, line.number, _excerpt(line, text), entities)


def _is_calm(entry: _Entry, text: str) -> bool:
    """Whether whoever wrote the line went on: a test that passed or was skipped, for kinds also a warning."""
    if PASSED.search(text):
        return True
    return entry.signature.general and not entry.matcher.warnings and bool(_WARNING.search(text))


# The cache of re holds fewer patterns than there are rules.
@functools.cache
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


def _named(found: re.Match[str]) -> dict[str, str]:
    return {name.rstrip(_DIGITS): value for name, value in found.groupdict().items() if value}


def _with_near(
    conditions: Iterable[Nearby], line: Line, text: str, entities: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the entities of a line, and those that it lacks and a line near it names."""
    for condition in conditions:
        pattern = _compiled(condition.pattern)
        if all(name.rstrip(_DIGITS) in entities for name in pattern.groupindex):
            continue
        near = (*line.window.before(condition.within), *line.window.after(condition.within))
        found = next(filter(None, map(pattern.search, (text, *map(canonical, near)))), None)
        entities = {**(_named(found) if found else {}), **entities}
    return entities


def _near(condition: Nearby, lines: Sequence[str]) -> bool:
    pattern = _compiled(condition.pattern)
    return any(pattern.search(canonical(text)) for text in lines)


def _excerpt(line: Line, text: str) -> str:
    shown = line.text.strip() if text is line.canonical else text
    return shown if len(shown) <= _EXCERPT else shown[: _EXCERPT - 4] + " ..."
