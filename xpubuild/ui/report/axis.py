"""A time axis without the time in which nothing ran, such as the night between two attempts."""

from __future__ import annotations

from collections.abc import Iterable

from xpubuild.frozen import frozen

#: Of all the time in which something ran: a longer pause is drawn this long.
_LONGEST_PAUSE = 0.03


@frozen
class Pause:
    """A pause that is drawn shorter than it was: where it ends (percent), and how long it was."""

    at: float
    seconds: float


class Axis:
    """Maps moments (seconds since the epoch) to percent of the width."""

    def __init__(self, spans: Iterable[tuple[float, float]]) -> None:
        busy = _merged(spans)
        ran = sum(end - start for start, end in busy)
        longest = ran * _LONGEST_PAUSE
        self.ran_s = ran
        self._pieces: list[tuple[float, float, float]] = []
        cut: list[tuple[float, float]] = []
        drawn, before = 0.0, busy[0][0] if busy else 0.0
        for start, end in busy:
            pause = start - before
            drawn += min(pause, longest)
            if pause > longest:
                cut.append((drawn, pause))
            self._pieces.append((start, end, drawn))
            drawn += end - start
            before = end
        self._length = drawn or 1.0
        self.pauses = [Pause(100 * at / self._length, seconds) for at, seconds in cut]

    def at(self, moment: float) -> float:
        """Return where a moment is drawn, in percent; what is between two spans is drawn at the second."""
        for start, end, drawn in self._pieces:
            if moment <= end:
                return 100 * (drawn + max(0.0, moment - start)) / self._length
        return 100.0


def _merged(spans: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found
