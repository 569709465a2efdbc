"""One line that may be relevant, with access to the lines around it."""

from __future__ import annotations

from xpubuild.explain.normalise import LONGEST, canonical, plain

_JOINED_FROM = 12
_JOINED_LINES = 8
# What stands behind a message of CMake and is none of it.
_ENDS = ("CMake ", "-- ", "Call Stack", "This warning is for")
#: Bytes that are looked at for so many neighbours: one of them may be the command of a compiler.
_AT_LEAST, _EACH = 1 << 15, 2000


class Line:
    """A line: ``number`` counts from 1 as editors do, ``text`` is without prefixes and colours.

    ``canonical`` is what rules are searched in, ``low`` the same in lower case, for literals. In the buffer,
    of which it is the part from ``start`` to ``end``, \\n ends every line.
    """

    def __init__(self, number: int, buffer: bytes, start: int, end: int) -> None:
        self.number = number
        self.text = plain(buffer[start:end])
        self.canonical = canonical(self.text)
        self.low = self.canonical.lower()
        self._buffer, self._start, self._end = buffer, start, end

    def before(self, count: int) -> list[str]:
        """Return up to ``count`` lines before it, the nearest first."""
        first = max(self._start - max(count * _EACH, _AT_LEAST), 0)
        return [plain(raw) for raw in reversed(self._buffer[first : self._start].splitlines()[-count:])]

    def after(self, count: int) -> list[str]:
        """Return up to ``count`` lines after it, the nearest first."""
        last = self._end + max(count * _EACH, _AT_LEAST)
        return [plain(raw) for raw in self._buffer[self._end + 1 : last].splitlines()[:count]]

    def joined(self) -> str:
        """Return a message of CMake that is wrapped over indented lines as one; nothing for other lines.

        Lines of other jobs may stand between its own; where its head is missing, only those of ninja.
        """
        own = self.text.lstrip()
        head = own.startswith("CMake ")
        if not head and not self.text.startswith("  "):
            return ""
        # pip indents all that a build prints: what is wrapped is indented more than its head.
        depth = len(self.text) - len(own) - (not head)
        parts: list[str] = []
        for text in self.after(_JOINED_FROM):
            if text[: depth + 1].isspace():
                parts.append(text)
            elif text.lstrip().startswith(_ENDS) or (text and not head and not text.startswith("[")):
                break
        return canonical(" ".join([self.text, *parts[:_JOINED_LINES]])[:LONGEST]) if parts else ""
