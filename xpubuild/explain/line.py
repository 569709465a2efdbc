"""One line that may be relevant, with access to the lines around it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xpubuild.explain.normalise import LONGEST, canonical

_JOINED_FROM = 12
_JOINED_LINES = 8
# What stands behind a message of CMake and is none of it.
_ENDS = ("CMake ", "-- ", "Call Stack", "This warning is for")


class Window(Protocol):
    """The neighbours of a line, as ``normalise.plain`` leaves them."""

    def before(self, count: int) -> Sequence[str]:
        """Return up to ``count`` lines before it, the nearest first."""
        ...

    def after(self, count: int) -> Sequence[str]:
        """Return up to ``count`` lines after it, the nearest first."""
        ...


class Line:
    """A line: ``number`` counts from 1 as editors do, ``text`` is without prefixes and colours.

    ``canonical`` is what signatures are searched in, ``low`` the same in lower case, for literals.
    """

    def __init__(self, number: int, text: str, window: Window) -> None:
        self.number = number
        self.text = text
        self.window = window
        self.canonical = canonical(text)
        self.low = self.canonical.lower()

    def joined(self) -> str:
        """Return a message of CMake that is wrapped over indented lines as one; nothing for other lines.

        Lines of other jobs may stand between its own; where its head is missing, only those of ninja.
        """
        head = self.text.startswith("CMake ")
        if not head and not self.text.startswith("  "):
            return ""
        parts: list[str] = []
        for text in self.window.after(_JOINED_FROM):
            if text.startswith((" ", "\t")):
                parts.append(text)
            elif text.startswith(_ENDS) or (text and not head and not text.startswith("[")):
                break
        if not parts:
            return ""
        return canonical(" ".join([self.text, *parts[:_JOINED_LINES]])[:LONGEST])
