"""Runs all rules over a log of any length, in one pass and in constant memory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from xpubuild.errors import UsageError
from xpubuild.explain.blocks import Reader, blocks
from xpubuild.explain.forms import CALM, MARKS, REMARK, SHORT, STEMS, FirstError, FirstErrorSearch
from xpubuild.explain.line import Line
from xpubuild.explain.normalise import canonical
from xpubuild.explain.prefilter import Prefilter
from xpubuild.explain.rules import MAX_DISTANCE, NEAR, Message, Rule, Rules, shipped_rules
from xpubuild.frozen import frozen

# "[3/10] Building CXX object error.cpp.o": what ninja is about to do is never an error.
_STATUS = re.compile(rb"\[\d{1,7}/\d{1,7}\] [A-Z]")
_STATUS_WITHIN = 200
# The messages of all rules are searched at the beginning of a log, round errors and at its end: in all of a
# long log they would cost more than everything else.
_HEAD, _AROUND, _TAIL = 1 << 20, 1 << 18, 1 << 18
# A log in which every line is an error must not cost more and more: bytes searched for messages, lines
# looked at.
_MOST_BYTES, _MOST_LINES = 4 << 20, 20_000
_LOOKS = 200  # of one rule whose message is there and whose other conditions are not met
_MATCHES = 20  # of one rule
_SHAPES = 50_000
#: The server of an address, of which no user and no password is taken.
_HOST = re.compile(r"\b(?:https?://(?:\S{1,99}@)?|git@|ssh://(?:\w{1,40}@)?)([\w-]{1,63}(?:\.[\w-]{1,63})+)")
_DIGITS = re.compile(rb"[1-9][0-9]*")  # none (0) is another thing than some
_SHAPE_WITHIN = 300
_EXCERPT = 400
# Steps come again and again: after the first blocks they are looked for at the end of each.
_STEPS_WITHIN = 1 << 11


@frozen
class Match:
    """A message of a rule at a line, with the words that vary in it."""

    rule: Rule
    line: int
    excerpt: str
    words: Mapping[str, str]
    is_error: bool

    @property
    def general(self) -> bool:
        """Whether another message says more: of a rule with rows, one whose value none of them has."""
        return self.rule.general or bool(self.rule.rows and self.rule.row(self.words) is None)


@frozen
class Outcome:
    """What was found in a log of ``lines`` lines, and the last lines of a failure, a step and a good end."""

    first_error: FirstError | None
    matches: tuple[Match, ...]
    facts: frozenset[str]
    lines: int
    failed: int = 0
    marks: Mapping[str, int] = field(default_factory=dict)


class Scanner:
    """Reads blocks of complete lines in order. A line is examined when the lines after it have been read."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._messages = [(message.literal, message, rule) for rule in rules.rules for message in rule.says]
        self._few = Prefilter(STEMS[0])
        self._all = Prefilter([*STEMS[0], *STEMS[1], *(text for text, _, _ in self._messages)])
        self._looks: dict[str, int] = {}
        self._matches: dict[str, list[Match]] = {}
        self._facts: set[str] = set()
        self._first = FirstErrorSearch()
        self._left, self._budget, self._lines = _HEAD, _HEAD + _MOST_BYTES, _MOST_LINES
        self._fed = 0
        self._buffer = b""  # a lone \r still stands where it stood, for counting
        self._done = 0
        self._number = 1
        self._shapes: set[bytes] = set()
        self._failed = 0
        self._marks: dict[str, int] = {}
        self._work: list[int] = []  # lines in which a program trains or serves

    def feed(self, block: bytes) -> None:
        """Take the next block."""
        self._buffer += block
        flat = self._buffer.replace(b"\r", b"\n")
        within = len(block) if self._fed < _HEAD else min(len(block), _STEPS_WITHIN)
        self._fed += len(block)
        self._mark(flat, max(len(flat) - within, 0))
        limit = _lines_back(flat, len(flat), MAX_DISTANCE)
        if limit > self._done:
            self._look(flat, limit)
        keep = min(
            _lines_back(flat, self._done, MAX_DISTANCE),
            flat.rfind(b"\n", 0, max(self._done - _TAIL, 0)) + 1,
        )
        self._number += self._buffer.count(b"\n", 0, keep)
        self._buffer = self._buffer[keep:]
        self._done -= keep

    def finish(self) -> Outcome:
        """Look at what is left, and once more at all of the end, and return what was found."""
        flat = self._buffer.replace(b"\r", b"\n")
        self._shapes.clear()
        self._lines = _MOST_LINES
        self._examine(flat, 0 if self._left <= 0 else self._done, len(flat), self._all)
        matches = sorted((hit for hits in self._matches.values() for hit in hits), key=lambda hit: hit.line)
        first = self._first.result(self._overcome, self._went_on)
        lines = self._number - 1 + self._buffer.count(b"\n")
        first = None if first and first.kind == REMARK and lines > SHORT else first
        return Outcome(first, tuple(matches), frozenset(self._facts), lines, self._failed, self._marks)

    def _overcome(self, line: int, tried_again: bool) -> bool:
        """Whether what failed at a line was done after all, or a run went on and nothing failed later."""
        good = self._marks.get("done", 0) if tried_again else max(self._marks.values(), default=0)
        return good > max(line, 0 if tried_again else self._failed)

    def _went_on(self, line: int, later: int) -> bool:
        return any(line < work < later for work in self._work)

    def _mark(self, flat: bytes, first: int) -> None:
        line, counted = self._number, 0
        for found in MARKS.finditer(flat, first):
            line += self._buffer.count(b"\n", counted, found.start())
            counted = found.start()
            self._marks[found.lastgroup or ""] = line
            if found.lastgroup in {"trained", "served"}:
                self._work.append(line)

    def _look(self, flat: bytes, limit: int) -> None:
        thorough = self._left > 0
        size = limit - self._done
        if self._examine(flat, self._done, limit, self._all if thorough else self._few) and self._budget > 0:
            if not thorough:
                self._budget -= size
                self._shapes.clear()
                self._examine(flat, self._done, limit, self._all)
            self._left = max(self._left, _AROUND)
        if thorough:
            self._left -= size
            self._budget -= size
        self._done = limit

    def _examine(self, flat: bytes, first: int, limit: int, prefilter: Prefilter) -> bool:
        """Look at the lines from ``first`` to ``limit`` and return whether one is an error or a message."""
        number, counted, found = self._number, 0, False
        if self._lines <= 0:
            return False
        for start, end in prefilter.lines(flat, first, limit):
            raw = flat[start : min(end, start + _SHAPE_WITHIN)]
            shape = _DIGITS.sub(b"1", raw)
            number += self._buffer.count(b"\n", counted, start)
            counted = start
            if shape in self._shapes and end - start <= _SHAPE_WITHIN:
                # What a line of this shape is was found out; that it is there again still counts.
                self._failed = max(self._failed, number) if b"\0" + shape in self._shapes else self._failed
                continue
            if self._lines <= 0 or (b": " not in raw and _STATUS.search(raw, 0, _STATUS_WITHIN)):
                continue
            self._lines -= 1
            line = Line(number, flat, start, end)
            error = self._first.consider(line)
            failed = error or self._first.stops(line)
            if failed:
                self._failed = max(self._failed, number)
            found = self._match(line, error) or error or found
            if len(self._shapes) < _SHAPES:
                self._shapes.update((shape, b"\0" + shape) if failed else (shape,))
        return found

    def _match(self, line: Line, error: bool) -> bool:
        """Try all rules on a line and on the message of CMake that begins with it."""
        if CALM.search(line.text):
            return False
        for name, (literal, pattern) in self._rules.facts.items():
            if literal in line.low and name not in self._facts and pattern.search(line.canonical):
                self._facts.add(name)
        found = False
        for text in filter(None, (line.canonical, line.joined())):
            low = text.lower()
            for literal, message, rule in self._messages:
                if literal in low and (words := self._fitting(rule, message, line, text)) is not None:
                    shown = line.text.strip() if text is line.canonical else text
                    match = Match(rule, line.number, shown[:_EXCERPT], words, error)
                    self._matches.setdefault(rule.id, []).append(match)
                    self._tried(rule, _LOOKS // _MATCHES)
                    found = True
                    if not (rule.warning or rule.general or error):
                        self._first.note(line)
        return found

    def _fitting(self, rule: Rule, message: Message, line: Line, text: str) -> dict[str, str] | None:
        """Return the words of a message if its rule fits."""
        found = message.pattern.search(text)
        known = any(match.line == line.number for match in self._matches.get(rule.id, ()))
        if not found or known or any(item.pattern.search(text) for item in rule.unless):
            return None
        words = {name: value for name, value in found.groupdict().items() if value}
        if rule.near or rule.unless_near:
            around = [text, *map(canonical, line.before(NEAR)), *map(canonical, line.after(NEAR))]
            seen = [hit for item in rule.near for other in around if (hit := item.pattern.search(other))]
            if (rule.near and not seen) or any(
                item.pattern.search(other) for item in rule.unless_near for other in around
            ):
                self._tried(rule)
                return None
            # The nearest line before it counts.
            words = {**{k: v for hit in reversed(seen) for k, v in hit.groupdict().items() if v}, **words}
        if value := words.get(rule.by, "").rstrip(".,:;").lstrip(",:;"):
            words[rule.by] = rule.codes.get(value.lower(), value)
        if rule.transfer:
            # The server that failed: of the message, of its line, of the lines around it.
            named = _HOST.search("\n".join((text, *line.before(NEAR), *line.after(NEAR))))
            words = {"host": named[1] if named else "", **words}
        return words if rule.fits(words) else None

    def _tried(self, rule: Rule, cost: int = 1) -> None:
        """Count what a rule cost, and leave it out of the rest when it was too much."""
        self._looks[rule.id] = self._looks.get(rule.id, 0) + cost
        if self._looks[rule.id] >= _LOOKS:
            self._messages = [entry for entry in self._messages if entry[2].id != rule.id]


def _lines_back(flat: bytes, end: int, count: int) -> int:
    """Return where the ``count`` last lines before ``end``, itself the beginning of a line, begin."""
    for _ in range(count):
        if end <= 0:
            return 0
        end = flat.rfind(b"\n", 0, end - 1) + 1
    return end


def scan(stream: Reader) -> Outcome:
    """Read a stream of bytes to its end."""
    scanner = Scanner(shipped_rules())
    for block in blocks(stream):
        scanner.feed(block)
    return scanner.finish()


def scan_file(path: Path) -> Outcome:
    """Read a log.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as stream:
            return scan(stream)
    except OSError as error:
        why, fix = error.strerror or str(error), "pass a log file, or - for standard input"
        raise UsageError(f"{path} cannot be read", why=why, fix=fix) from error
