"""Puts intervals beside each other: each into the first lane that is free when it begins."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

#: ninja begins the next edge a moment before it notes the end of the one whose place it takes.
_OVERLAP_S = 0.05


def lanes(intervals: Iterable[tuple[float, float]]) -> list[int]:
    """Return the lane (from 0) of each interval (start, end), in the order they were given."""
    given = list(intervals)
    found = [0] * len(given)
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    used = 0
    for number in sorted(range(len(given)), key=lambda item: given[item]):
        start, end = given[number]
        while busy and busy[0][0] <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, used = used, used + 1
        found[number] = lane
        heapq.heappush(busy, (end - min(_OVERLAP_S, (end - start) / 2), lane))
    return found
