"""Runs all rules over a log of any length, in one pass and in constant memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path

from xpubuild.errors import UsageError
from xpubuild.explain.aftermath import Aftermath, last_marks
from xpubuild.explain.blocks import Reader, blocks
from xpubuild.explain.firsterror import LITERALS, RARE_LITERALS, FirstError, FirstErrorSearch
from xpubuild.explain.line import Line
from xpubuild.explain.load import Rules, shipped_rules
from xpubuild.explain.matcher import Match, Matching
from xpubuild.explain.normalise import plain
from xpubuild.explain.prefilter import COMPILERS, OPTION, Prefilter
from xpubuild.explain.signature import MAX_DISTANCE
from xpubuild.frozen import frozen

# "[3/10] Building CXX object error.cpp.o": what ninja is about to do is never an error.
_STATUS = re.compile(rb"\[\d{1,7}/\d{1,7}\] [A-Z]")
_STATUS_WITHIN = 200
# Lines that mean nothing are remembered: one header's warning comes once per file that includes it.
_MOST_IDLE, _IDLE_LENGTH = 20000, 500
# A command that make or ninja prints is none either, but its options say what was asked for.
_COMMAND = re.compile(rb"(?:\[\d{1,7}/\d{1,7}\] )?" + COMPILERS)
# Kinds have hundreds of literals. They are searched at the beginning of a log, round errors and at its end:
# in all of a long log they would cost more than everything else.
_HEAD, _AROUND, _TAIL = 1 << 20, 1 << 18, 1 << 18
# A log in which every line is an error must not cost more and more.
_MOST_AROUND = 6 << 20
# Steps come again and again: after the first blocks they are looked for at the end of each.
_STEPS_WITHIN = 1 << 11
# SYCL says so of each adapter that it tries in vain, as information, and goes on.
_REMARK = "failed to load adapter"
# What stands round a match or the first error, for comparing it with known failures.
_ABOVE, _BELOW, _MOST_PLACES = 2, 5, 200


@frozen
class Outcome:
    """What was found in a log of ``lines`` lines."""

    first_error: FirstError | None
    matches: tuple[Match, ...]
    facts: frozenset[str]
    lines: int
    #: Line of a match or of the first error -> the lines round it and itself.
    surroundings: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    aftermath: Aftermath = Aftermath()


@frozen
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
        self.matching = Matching(rules.index)
        self._first = FirstErrorSearch()
        self._everywhere = Prefilter([*self.matching.wanted(), *LITERALS])
        self._thorough = Prefilter([*rules.index.literals, *LITERALS, *RARE_LITERALS])
        self._left = _HEAD  # bytes that are still to be searched for all literals
        self._budget = _HEAD + _MOST_AROUND
        self._searched = 0  # up to where in the buffer all literals were looked for
        self._buffer = b""  # a lone \r still stands where it stood, for counting
        self._done = 0
        self._idle: dict[bool, set[bytes]] = {True: set(), False: set()}
        self._number = 1
        self._surroundings: dict[int, tuple[str, ...]] = {}
        self._failed = 0
        self._marks: dict[str, int] = {}

    def feed(self, block: bytes) -> None:
        """Take the next block."""
        self._buffer += block
        flat = self._buffer.replace(b"\r", b"\n")
        self._mark(flat, 0 if self._number == 1 else max(len(flat) - min(len(block), _STEPS_WITHIN), 0))
        self._look(flat, _lines_back(flat, len(flat), MAX_DISTANCE))
        keep = min(
            _lines_back(flat, self._done, MAX_DISTANCE),
            flat.rfind(b"\n", 0, max(self._done - _TAIL, 0)) + 1,
        )
        self._number += self._buffer.count(b"\n", 0, keep)
        self._buffer = self._buffer[keep:]
        self._done -= keep
        self._searched = max(self._searched - keep, 0)

    def finish(self) -> Outcome:
        """Look at what is left and return what was found."""
        flat = self._buffer.replace(b"\r", b"\n")
        self._examine(flat, self._searched, len(flat), thorough=True)
        lines = self._number - 1 + self._buffer.count(b"\n")
        return Outcome(
            self._first.result(),
            tuple(self.matching.matches),
            frozenset(self.matching.facts),
            lines,
            self._surroundings,
            Aftermath(
                self._failed,
                max(self._marks.get("step", 0), self._marks.get("trained", 0)),
                self._marks.get("done", 0),
                "trained" in self._marks,
            ),
        )

    def _mark(self, flat: bytes, first: int) -> None:
        for name, place in last_marks(flat[first:]).items():
            self._marks[name] = self._number + self._buffer.count(b"\n", 0, first + place)

    def _look(self, flat: bytes, limit: int) -> None:
        if limit <= self._done:
            return
        known = len(self.matching.matches) + len(self.matching.facts)
        thorough = self._left > 0
        if self._examine(flat, self._done, limit, thorough=thorough) and self._budget > 0:
            if not thorough:
                self._examine(flat, self._searched, limit, thorough=True)
            self._left, thorough = max(self._left, _AROUND), True
        if thorough:
            self._left -= limit - self._done
            self._budget -= limit - self._done
            self._searched = limit
        self._done = limit
        if len(self.matching.matches) + len(self.matching.facts) > known:
            self._everywhere = Prefilter([*self.matching.wanted(), *LITERALS])

    def _examine(self, flat: bytes, first: int, limit: int, *, thorough: bool) -> bool:
        """Look at the lines from ``first`` to ``limit`` and return whether one is an error."""
        number, counted, failed = self._number, 0, False
        prefilter, idle = self._thorough if thorough else self._everywhere, self._idle[thorough]
        for start, end, triggers in _by_line(flat, prefilter.hits(flat, first, limit)):
            number += self._buffer.count(b"\n", counted, start)
            counted = start
            raw = flat[start:end]
            if raw in idle or (b": " not in raw and _is_command(raw, triggers)):
                continue
            line = Line(number, plain(raw), _Around(flat, start, end))
            found = self.matching.consider(line, triggers)
            error = self._first.consider(line)
            if found or error:
                self._remember(line)
            failed = failed or error
            if number > self._failed and (error or self._first.stops(line)) and _REMARK not in line.low:
                self._failed = number
            if not error and self.matching.idle and len(raw) <= _IDLE_LENGTH:
                idle.add(raw)
        if len(idle) > _MOST_IDLE:
            idle.clear()
        return failed

    def _remember(self, line: Line) -> None:
        if len(self._surroundings) < _MOST_PLACES and line.number not in self._surroundings:
            above, below = line.window.before(_ABOVE), line.window.after(_BELOW)
            self._surroundings[line.number] = (*reversed(above), line.text, *below)


def _is_command(raw: bytes, triggers: set[str]) -> bool:
    """Whether a line only shows what is done next."""
    if _STATUS.search(raw, 0, _STATUS_WITHIN):
        return True
    return bool(_COMMAND.match(raw)) and not any(OPTION in text for text in triggers)


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
