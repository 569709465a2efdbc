"""Holds lines against signatures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xpubuild.explain.line import Line
from xpubuild.explain.normalise import canonical
from xpubuild.explain.signature import Fact, Matcher, Nearby, Signature

# A matcher whose line is everywhere and whose surroundings never fit must not cost more and more.
_MOST_LOOKS = 2000
_EXCERPT = 400


@dataclass(frozen=True)
class Match:
    """A signature fits at a line, if the facts that its matcher asks for hold."""

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

    def __post_init__(self) -> None:
        self._entries: dict[str, list[_Entry]] = {}
        literals: set[str] = set()
        for signature in self.signatures:
            for matcher in signature.match:
                entry = _Entry(signature, matcher, _compiled(matcher.line))
                for literal in matcher.find:
                    self._entries.setdefault(literal, []).append(entry)
                literals.update(matcher.beside or matcher.find)
        self._facts = [_FactEntry(fact.name, fact.find, _compiled(fact.line)) for fact in self.known]
        self.literals = literals.union(*(fact.literals for fact in self._facts))

    def consider(self, line: Line) -> list[Match]:
        """Look at one line and return what is new."""
        new: list[Match] = []
        for literal, entries in self._entries.items():
            if literal in line.low:
                new += self._try(entries, line, line.canonical)
        if line.text.startswith(("CMake ", "  ")) and line.joined:
            low = line.joined.lower()
            for literal, entries in self._entries.items():
                if literal in low:
                    new += self._try(entries, line, line.joined)
        for fact in self._facts:
            if fact.name not in self.facts and any(text in line.low for text in fact.literals):
                if fact.line.search(line.canonical):
                    self.facts.add(fact.name)
        self.matches += new
        return new

    def _try(self, entries: Iterable[_Entry], line: Line, text: str) -> Iterable[Match]:
        for entry in entries:
            if entry.done or entry.looks >= _MOST_LOOKS or not entry.line.search(text):
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
