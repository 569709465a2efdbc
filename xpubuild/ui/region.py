"""A block of lines at the bottom of a terminal that is drawn again in place.

The cursor rests, visible, on the line below the block after every frame: whatever ends the program, SIGKILL
included, leaves a terminal that needs no repair. A frame is one write, so it does not flicker.
"""

from __future__ import annotations

from collections.abc import Sequence

from xpubuild.frozen import frozen
from xpubuild.ui.terminal import Terminal

# Synchronised output (mode 2026): terminals that know it show the frame at once, others ignore it.
_BEGIN = "\x1b[?2026h\x1b[?25l"
_END = "\x1b[?25h\x1b[?2026l"
_CLEAR_LINE = "\x1b[K"
_CLEAR_BELOW = "\x1b[J"


@frozen
class DrawnLine:
    """Text with its colour codes, and the cells it takes without them."""

    text: str
    width: int


class Region:
    """Draws lines over those it drew before."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._widths: list[int] = []
        self._columns = 0
        self._last = ""

    def draw(self, lines: Sequence[DrawnLine], above: Sequence[str] = ()) -> None:
        """Replace the block by ``lines``; ``above`` are lines that stay, in the scroll-back."""
        columns, _ = self._terminal.size()
        resized = columns != self._columns and bool(self._widths)
        body = "".join(f"{line.text}{_CLEAR_LINE}\n" for line in lines)
        if body == self._last and not above and not resized:
            return
        up = self._rows_drawn(columns)
        move = f"\r\x1b[{up}A" if up else "\r"
        # Overwriting does not flicker, clearing first may. It is needed after a resize, when the terminal
        # holds lines that it wrapped, and for lines above, which may wrap: clearing behind a full row would
        # take its last character.
        clear = _CLEAR_BELOW if above or resized else ""
        kept = "".join(f"{text}\n" for text in above)
        self._terminal.write(f"{_BEGIN}{move}{clear}{kept}{body}{_CLEAR_BELOW}{_END}")
        self._widths, self._columns, self._last = [line.width for line in lines], columns, body

    def release(self) -> None:
        """Leave what is drawn where it is; the next frame starts below."""
        self._widths, self._last = [], ""

    def _rows_drawn(self, columns: int) -> int:
        """Return the rows the block takes now: a narrower window wraps what was drawn for a wider one."""
        return sum(max(1, -(-width // columns)) for width in self._widths)
