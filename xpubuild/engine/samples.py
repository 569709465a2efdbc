"""Measurements over time, kept in a bounded room."""

from __future__ import annotations

#: Points that are kept of one command, however long it runs.
MOST = 240


class Samples:
    """Keeps the largest value of each stretch of time; stretches grow, so that they stay few."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._every = 1
        self._taken = 0
        self._kept: list[tuple[float, int]] = []

    def add(self, at_s: float, value: int) -> None:
        """Take a value, measured ``at_s`` seconds after the start; call it in the order of time."""
        if self._taken % self._every == 0:
            if len(self._kept) >= self._most:
                self._thin()
            self._kept.append((at_s, value))
        else:
            first, largest = self._kept[-1]
            self._kept[-1] = (first, max(largest, value))
        self._taken += 1

    def _thin(self) -> None:
        pairs = zip(self._kept[::2], self._kept[1::2], strict=False)
        self._kept = [(first[0], max(first[1], second[1])) for first, second in pairs]
        self._every *= 2

    def points(self) -> tuple[tuple[float, int], ...]:
        """Return (seconds after the start, largest value of the stretch that begins there)."""
        return tuple((round(at_s, 1), value) for at_s, value in self._kept)
