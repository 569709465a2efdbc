"""What a report draws, as numbers and paths of SVG: times of steps, builds over time, memory; operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from xpubuild.frozen import frozen
from xpubuild.ui import wording as show
from xpubuild.ui.parts import Document

Span = tuple[float, float]
WIDTH = 1000
#: Units that a memory picture is high.
HEIGHT = 60
_LANE, _LEAST_LANE, _MOST_HEIGHT = 14, 3, 320
_NARROWEST, _GAP = 0.6, 1.0
#: A longer edge has a name of its own where the pointer rests.
_NAMED, _MOST_SLOWEST = 40, 20
_KINDS = ((".o", "compile"), (".obj", "compile"), (".so", "link"), (".a", "link"))
#: Fewer points of memory than these are no picture.
_LEAST_POINTS = 12
#: The commands of an attempt begin after its step does; the two clocks are read one after the other.
_TOLERANCE_S = 1.0
#: ninja begins the next edge a moment before it notes the end of the one whose place it takes.
_OVERLAP_S = 0.05
_MOST_BAD = 300
_BAD = ("failed", "crashed", "timed out", "known failure")


def step_rows(document: Document) -> list[dict[str, Any]]:
    """Return each step with the percent of a bar: its last attempt, compared with that of the longest."""
    took = [
        document["created"] - step["started"] if step["status"] == "running" else step["duration_s"] or 0.0
        for step in document["steps"]
    ]
    longest = max(took, default=0.0) or 1.0
    return [
        {"step": step, "percent": f"{100 * seconds / longest:.1f}"}
        for step, seconds in zip(document["steps"], took, strict=True)
    ]


def _span(item: Document, length: float | None = None) -> Span:
    return item["started"], item["started"] + (item["duration_s"] if length is None else length)


@frozen
class Window:
    """The stretch of time that a picture shows, in seconds of any clock."""

    start: float
    end: float

    def x(self, moment: float) -> float:
        """Return where a moment is, in units."""
        length = self.end - self.start
        return WIDTH * min(max(moment - self.start, 0.0), length) / length if length > 0 else 0.0


def build_figures(document: Document) -> Iterator[dict[str, Any]]:
    """Yield a figure for each step that ninja built or whose memory was recorded for long enough."""
    for step in document["steps"]:
        every = [item for item in document["builds"] if item["step"] == step["id"]]
        begin = (step["started"] or 0.0) - _TOLERANCE_S
        # Those of the last attempt; where it ended before ninja began, the last that ran at all.
        builds = [item for item in every if item["started"] >= begin] or every[-1:]
        begin = min((build["started"] + build["span_s"] for build in builds), default=begin)
        mine = [item for item in document["commands"] if item["step"] == step["id"]]
        commands = [item for item in mine if _span(item)[1] >= begin]
        if not builds and sum(len(item["memory"]) for item in commands) < _LEAST_POINTS:
            continue
        spans = [*map(_span, commands), *(_span(build, build["span_s"]) for build in builds)]
        spans += [(step["started"], document["created"])] if step["status"] == "running" else []
        window = Window(min(start for start, _ in spans), max(end for _, end in spans))
        yield {
            "name": step["id"], "title": step["title"], "took": show.duration(window.end - window.start),
            "ninja": _ninja(builds, window) if builds else None,
            "memory": memory_picture(commands, window),
        }  # fmt: skip


def _ninja(builds: Sequence[Document], window: Window) -> dict[str, Any]:
    """Return the pictures of all runs of ninja in a stretch of time."""
    edges = [edge for build in builds for edge in build["edges"]]
    starts = [build["started"] + edge["start_s"] for build in builds for edge in build["edges"]]
    spans = [(start, start + edge["duration_s"]) for start, edge in zip(starts, edges, strict=True)]
    names, placed = [edge["output"] for edge in edges], lanes(spans)
    return {
        "folders": ", ".join(dict.fromkeys(build["folder"] for build in builds)),
        "count": len(edges),
        "together": max(placed, default=0) + 1,
        "kinds": dict(sorted(Counter(map(kind_of, names)).items())),
        "lanes": _lane_picture(names, spans, placed, window),
    }


def lanes(spans: Sequence[Span]) -> list[int]:
    """Return for each span the first lane (from 0) that is free when it begins."""
    found, ends = [0] * len(spans), list[float]()
    for number in sorted(range(len(spans)), key=spans.__getitem__):
        start, end = spans[number]
        lane = next((lane for lane, until in enumerate(ends) if until <= start), len(ends))
        ends[lane : lane + 1] = [end - min(_OVERLAP_S, (end - start) / 2)]
        found[number] = lane
    return found


def kind_of(output: str) -> str:
    """Return compile, link or other: what an edge does, by the name of its output."""
    name = output.rpartition("/")[2]
    return next((kind for ending, kind in _KINDS if name.endswith(ending) or f"{ending}." in name), "other")


def _lane_picture(
    names: Sequence[str], spans: Sequence[Span], placed: Sequence[int], window: Window
) -> dict[str, Any]:
    """Return one bar per edge, those beside each other that ran at the same time."""
    count = max(placed, default=0) + 1
    step = min(_LANE, max(_LEAST_LANE, _MOST_HEIGHT // count))
    paths: dict[str, list[str]] = {}
    bars: list[dict[str, Any]] = []
    for name, (start, end), lane in zip(names, spans, placed, strict=True):
        left = window.x(start)
        width = window.x(end) - left
        width = max(width - _GAP if width > 4 * _GAP else width, _NARROWEST)
        shape = f"M{left:.1f} {lane * step}h{width:.1f}v{step - 1}h-{width:.1f}z"
        paths.setdefault(kind_of(name), []).append(shape)
        bars.append({
            "x": f"{left:.1f}", "width": f"{width:.1f}", "y": lane * step, "height": step - 1,
            "name": name, "seconds": end - start,
        })  # fmt: skip
    return {
        "height": count * step,
        "paths": [{"kind": kind, "d": "".join(shapes)} for kind, shapes in sorted(paths.items())],
        "named": sorted(bars, key=lambda bar: -bar["seconds"])[:_NAMED],
    }


def memory_picture(commands: Sequence[Document], window: Window) -> dict[str, Any] | None:
    """Return the memory of a step's commands over time; None where too little was recorded to draw."""
    points: list[tuple[float, float]] = []
    for item in commands:
        points += [(item["started"] + at_s, float(count)) for at_s, count in item["memory"]]
        if item["memory"]:
            points.append((item["started"] + item["duration_s"], 0.0))
    if not points:
        return None
    most = max(value for _, value in points)
    scale = (HEIGHT - 2) / most if most > 0 else 0.0
    parts = [f"H{window.x(moment):.1f}V{HEIGHT - value * scale:.1f}" for moment, value in points]
    start, end = window.x(points[0][0]), window.x(points[-1][0])
    line = "".join((f"M{start:.1f} {HEIGHT}", *parts, f"H{end:.1f}V{HEIGHT}z"))
    return {"height": HEIGHT, "d": line, "most": most}


def slowest_edges(document: Document) -> dict[str, Any]:
    """Return the edges that took longest, and what all of them took together."""
    found = [
        # setuptools puts whole paths of sources into the names of its own outputs.
        {**edge, "folder": build["folder"], "name": edge["output"].rpartition(f"{document['workspace']}/")[2]}
        for build in document["builds"]
        for edge in build["edges"]
    ]
    total = sum(edge["duration_s"] for edge in found)
    rows = sorted(found, key=lambda edge: -edge["duration_s"])[:_MOST_SLOWEST]
    return {"rows": rows, "count": len(found), "total": show.duration(total)}


def operator_table(document: Document) -> dict[str, Any]:
    """Return how many operators of each type are in each state, and what did not pass."""
    cells, states = document["cells"], list(document["states"])
    counts = Counter((cell["type"], cell["state"]) for cell in cells)
    types = dict.fromkeys(cell["type"] for cell in cells)
    bad = [cell for cell in cells if cell["state"] in _BAD]
    return {
        "states": states,
        "rows": [(kind, [counts[kind, state] for state in states]) for kind in types],
        "all": [document["states"][state] for state in states],
        "bad": bad[:_MOST_BAD],
        "more": max(0, len(bad) - _MOST_BAD),
    }
