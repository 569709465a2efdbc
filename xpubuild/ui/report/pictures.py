"""Shapes of the pictures: paths of SVG, 1000 units wide, in numbers alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.frozen import frozen

WIDTH = 1000
#: Units that a memory or jobs picture is high.
HEIGHT = 60
_LANE, _LEAST_LANE, _MOST_HEIGHT = 14, 3, 320
_BINS = 250
_NARROWEST, _GAP = 0.6, 1.0
#: A longer edge has a name of its own where the pointer rests.
_NAMED = 40
_KINDS = ((".o", "compile"), (".obj", "compile"), (".so", "link"), (".a", "link"))


@frozen
class Window:
    """The stretch of time that a picture shows, in seconds of any clock."""

    start: float
    end: float

    def x(self, moment: float) -> float:
        """Return where a moment is, in units."""
        length = self.end - self.start
        return WIDTH * min(max(moment - self.start, 0.0), length) / length if length > 0 else 0.0


@frozen
class Placed:
    """An edge with its place: begin and end in the window's clock, and the lane from the top."""

    name: str
    start: float
    end: float
    lane: int


def kind_of(output: str) -> str:
    """Return compile, link or other: what an edge does, by the name of what it makes."""
    name = output.rpartition("/")[2]
    return next((kind for ending, kind in _KINDS if name.endswith(ending) or f"{ending}." in name), "other")


def lane_picture(edges: Sequence[Placed], window: Window) -> dict[str, Any]:
    """Return one bar per edge, those beside each other that ran at the same time."""
    count = max((edge.lane for edge in edges), default=0) + 1
    step = min(_LANE, max(_LEAST_LANE, _MOST_HEIGHT // count))
    high = step - 1
    paths: dict[str, list[str]] = {}
    for edge in edges:
        left, width = _bar(edge, window)
        bar = f"M{left:.1f} {edge.lane * step}h{width:.1f}v{high}h-{width:.1f}z"
        paths.setdefault(kind_of(edge.name), []).append(bar)
    named = sorted(edges, key=lambda edge: edge.start - edge.end)[:_NAMED]
    return {
        "height": count * step,
        "paths": [{"kind": kind, "d": "".join(bars)} for kind, bars in sorted(paths.items())],
        "named": [
            {"x": f"{_bar(edge, window)[0]:.1f}", "width": f"{_bar(edge, window)[1]:.1f}",
             "y": edge.lane * step, "height": high, "name": edge.name, "seconds": edge.end - edge.start}
            for edge in named
        ],
    }  # fmt: skip


def _bar(edge: Placed, window: Window) -> tuple[float, float]:
    left = window.x(edge.start)
    width = window.x(edge.end) - left
    return left, max(width - _GAP if width > 4 * _GAP else width, _NARROWEST)


def jobs_picture(edges: Sequence[Placed], window: Window) -> dict[str, Any]:
    """Return how many edges ran: the mean of each of a few hundred stretches of time."""
    width = (window.end - window.start) / _BINS
    running = [0.0] * _BINS
    for edge in edges if width > 0 else ():
        first = max(0, int((edge.start - window.start) / width))
        last = min(_BINS - 1, int((edge.end - window.start) / width))
        for number in range(first, last + 1):
            begin = window.start + number * width
            running[number] += max(0.0, min(edge.end, begin + width) - max(edge.start, begin)) / width
    points = [(window.start + number * width, value) for number, value in enumerate(running)]
    return _area(points, window, max(running), until=window.end)


def memory_picture(commands: Sequence[Mapping[str, Any]], window: Window) -> dict[str, Any] | None:
    """Return the memory of a step's commands over time; None where too little was recorded to draw."""
    points: list[tuple[float, float]] = []
    for item in commands:
        points += [(item["started"] + at_s, float(count)) for at_s, count in item["memory"]]
        if item["memory"]:
            points.append((item["started"] + item["duration_s"], 0.0))
    return _area(points, window, max(value for _, value in points)) if points else None


def _area(
    points: Sequence[tuple[float, float]], window: Window, most: float, until: float | None = None
) -> dict[str, Any]:
    """Return an area of steps below the points."""
    scale = (HEIGHT - 2) / most if most > 0 else 0.0
    parts = [f"M{window.x(points[0][0]):.1f} {HEIGHT}"]
    for moment, value in points:
        parts.append(f"H{window.x(moment):.1f}V{HEIGHT - value * scale:.1f}")
    parts.append(f"H{window.x(until if until is not None else points[-1][0]):.1f}V{HEIGHT}z")
    return {"height": HEIGHT, "d": "".join(parts), "most": most}
