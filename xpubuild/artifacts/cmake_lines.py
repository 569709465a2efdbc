"""Joins the wrapped messages of CMake: it wraps them over indented lines, and pip indents them again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from xpubuild.frozen import frozen

_HEAD = re.compile(r"(\s{0,8})CMake (?:Warning|Error|Deprecation Warning)\b")
_LONGEST_MESSAGE = 40
_LONGEST_LINE = 8192
# Polls that a message may wait for its end; its lines come within milliseconds of each other.
_PATIENCE = 2


@frozen
class Message:
    """A message of CMake, or any other line: numbered ``lines``, and all of them as one ``text``."""

    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        """The message on one line with single spaces."""
        return " ".join(" ".join(line.split()) for _, line in self.lines if line.strip())


@dataclass
class Messages:
    """Takes lines and returns complete messages."""

    _open: list[tuple[int, str]] = field(default_factory=list)
    _indent: int = 0
    _polls: int = 0

    def feed(self, text: str, number: int) -> list[Message]:
        """Take a line and return the messages that ended with it or before it."""
        text = text[:_LONGEST_LINE]
        ended: list[Message] = []
        if self._open:
            if self._goes_on(text):
                self._open.append((number, text))
                return self._end() if len(self._open) >= _LONGEST_MESSAGE else []
            ended = self._end()
        head = _HEAD.match(text)
        if head:
            self._open, self._indent, self._polls = [(number, text)], len(head[1]), 0
            return ended
        return [*ended, Message(((number, text),))]

    def patience(self) -> list[Message]:
        """Return the open message where its end is overdue; call it from time to time."""
        self._polls += 1
        return self.rest() if self._polls >= _PATIENCE else []

    def rest(self) -> list[Message]:
        """Return the open message, where there is one: no line follows."""
        return self._end() if self._open else []

    def _goes_on(self, text: str) -> bool:
        body = text.lstrip()
        return not body or len(text) - len(body) > self._indent or body.startswith("Call Stack")

    def _end(self) -> list[Message]:
        lines = _without_blank_end(self._open)
        self._open = []
        return [Message(lines)]


def _without_blank_end(lines: Iterable[tuple[int, str]]) -> tuple[tuple[int, str], ...]:
    kept = list(lines)
    while kept and not kept[-1][1].strip():
        kept.pop()
    return tuple(kept)
