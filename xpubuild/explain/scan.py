"""Runs all rules over a log of any length, in one pass and in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from xpubuild.errors import UsageError
from xpubuild.explain.blocks import Reader, blocks
from xpubuild.explain.firsterror import LITERALS, RARE_LITERALS, FirstError, FirstErrorSearch
from xpubuild.explain.line import Line
from xpubuild.explain.load import Rules, shipped_rules
from xpubuild.explain.matcher import Match, Matching
from xpubuild.explain.normalise import plain
from xpubuild.explain.prefilter import Prefilter
from xpubuild.explain.signature import MAX_DISTANCE

# "[3/10] Building CXX object error.cpp.o": what ninja is about to do is never an error.
_STATUS = re.compile(rb"\[\d{1,7}/\d{1,7}\] [A-Z]")
_STATUS_WITHIN = 200
# Lines that mean nothing are remembered: one header's warning comes once per file that includes it.
_MOST_IDLE, _IDLE_LENGTH = 20000, 500
# Kinds have hundreds of literals, searched at the beginning, at the end and from the first error on: in a
# long log that is otherwise fine they would cost more than all else.
_THOROUGHLY = 4 << 20


@dataclass(frozen=True)
class Outcome:
    """What was found in a log of ``lines`` lines."""

    first_error: FirstError | None
    matches: tuple[Match, ...]
    facts: frozenset[str]
    lines: int


@dataclass(frozen=True)
class _Around:
    """The neighbours of the line from ``start`` to ``end`` in a buffer in which \\n ends every line."""

    buffer: bytes
    start: int
    end: int

    def before(self, count: int) -> list[str]:
        found: list[str] = []
        end = self.start - 1
        while end >= 0 and len(found) < count:
            start = self.buffer.rfind(b"\n", 0, end) + 1
            found.append(plain(self.buffer[start:end]))
            end = start - 1
        return found

    def after(self, count: int) -> list[str]:
        found: list[str] = []
        start = self.end + 1
        while start < len(self.buffer) and len(found) < count:
            end = self.buffer.find(b"\n", start)
            end = len(self.buffer) if end < 0 else end
            found.append(plain(self.buffer[start:end]))
            start = end + 1
        return found


class Scanner:
    """Reads blocks of complete lines in order. A line is examined when the lines after it have been read."""

    def __init__(self, rules: Rules) -> None:
        self.matching = Matching(rules.signatures, rules.facts)
        self._first = FirstErrorSearch()
        self._everywhere = Prefilter([*self.matching.special, *LITERALS])
        self._thorough = Prefilter([*self.matching.literals, *LITERALS, *RARE_LITERALS])
        self._thoroughly = _THOROUGHLY
        self._buffer = b""  # a lone \r still stands where it stood, for counting
        self._done = 0
        self._idle: set[bytes] = set()
        self._number = 1

    def feed(self, block: bytes) -> None:
        """Take the next block."""
        self._buffer += block
        flat = self._buffer.replace(b"\r", b"\n")
        self._look(flat, _lines_back(flat, len(flat), MAX_DISTANCE))
        keep = _lines_back(flat, self._done, MAX_DISTANCE)
        self._number += self._buffer.count(b"\n", 0, keep)
        self._buffer = self._buffer[keep:]
        self._done -= keep

    def finish(self) -> Outcome:
        """Look at what is left and return what was found."""
        self._thoroughly = max(self._thoroughly, 1)
        self._look(self._buffer.replace(b"\r", b"\n"), len(self._buffer))
        lines = self._number - 1 + self._buffer.count(b"\n")
        return Outcome(
            self._first.result(), tuple(self.matching.matches), frozenset(self.matching.facts), lines
        )

    def _look(self, flat: bytes, limit: int) -> None:
        calm = self._first.result() is None
        self._examine(flat, limit, self._thorough if self._thoroughly > 0 else self._everywhere)
        self._thoroughly -= max(limit - self._done, 0)
        if calm and self._first.result() is not None:
            if self._thoroughly <= 0:
                self._examine(flat, limit, self._thorough)
            self._thoroughly = _THOROUGHLY
        self._done = max(self._done, limit)

    def _examine(self, flat: bytes, limit: int, prefilter: Prefilter) -> None:
        number, counted = self._number, 0
        for start, end, triggers in _by_line(flat, prefilter.hits(flat, self._done, limit)):
            number += self._buffer.count(b"\n", counted, start)
            counted = start
            raw = flat[start:end]
            if raw in self._idle or (b": " not in raw and _STATUS.search(raw, 0, _STATUS_WITHIN)):
                continue
            line = Line(number, plain(raw), _Around(flat, start, end))
            self.matching.consider(line, triggers)
            if not self._first.consider(line) and self.matching.idle and len(raw) <= _IDLE_LENGTH:
                self._idle.add(raw)
        if len(self._idle) > _MOST_IDLE:
            self._idle.clear()


def _by_line(flat: bytes, hits: list[tuple[int, str]]) -> Iterator[tuple[int, int, set[str]]]:
    """Yield beginning, end and literals of each line that was hit."""
    start, end, triggers = 0, -1, set[str]()
    for place, text in hits:
        if place >= end:
            if triggers:
                yield start, end, triggers
            start = flat.rfind(b"\n", 0, place) + 1
            end = flat.find(b"\n", place)
            end = len(flat) if end < 0 else end
            triggers = set()
        triggers.add(text)
    if triggers:
        yield start, end, triggers


def _lines_back(flat: bytes, end: int, count: int) -> int:
    """Return where the ``count`` last lines before ``end``, itself the beginning of a line, begin."""
    for _ in range(count):
        if end <= 0:
            return 0
        end = flat.rfind(b"\n", 0, end - 1) + 1
    return end


def scan(stream: Reader, rules: Rules | None = None) -> Outcome:
    """Read a stream of bytes to its end."""
    scanner = Scanner(rules or shipped_rules())
    for block in blocks(stream):
        scanner.feed(block)
    return scanner.finish()


def scan_file(path: Path, rules: Rules | None = None) -> Outcome:
    """Read a log.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return scan(stream, rules)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read",
            why=error.strerror or str(error),
            fix="pass a log file, or - for standard input",
        ) from error
