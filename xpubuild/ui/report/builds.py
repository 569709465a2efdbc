"""What is drawn of steps that compiled: edges of ninja, how many ran, memory; and the slowest edges."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpubuild.ui import wording as show
from xpubuild.ui.report.lanes import lanes
from xpubuild.ui.report.pictures import (
    Placed,
    Window,
    jobs_picture,
    kind_of,
    lane_picture,
    memory_picture,
)

#: Fewer points of memory than these are no picture.
_LEAST_POINTS = 12
_MOST_SLOWEST = 20
#: The commands of an attempt begin after its step does; the two clocks are read one after the other.
_TOLERANCE_S = 1.0


def build_figures(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a figure for each step that ninja built or whose memory was recorded for long enough."""
    return [*_of_steps(document), *(_unplaced(item) for item in document["builds"] if not item["step"])]


def _of_steps(document: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for step in document["steps"]:
        every = [item for item in document["builds"] if item["step"] == step["id"]]
        begin = (step["started"] or 0.0) - _TOLERANCE_S
        # Those of the last attempt; where it ended before ninja began, the last that ran at all.
        builds = [item for item in every if item["started"] >= begin] or every[-1:]
        commands = _at_that_time(step, builds, document["commands"])
        points = sum(len(item["memory"]) for item in commands)
        if builds or points >= _LEAST_POINTS:
            now = [(step["started"], document["created"])] if step["status"] == "running" else []
            earlier = sum(len(item["edges"]) for item in every) - sum(len(item["edges"]) for item in builds)
            yield {**_figure(step, builds, commands, now), "earlier": earlier}


def _at_that_time(
    step: Mapping[str, Any], builds: Sequence[Mapping[str, Any]], commands: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the commands of the last attempt, or of that in which ninja ran last."""
    begin = (step["started"] or 0.0) - _TOLERANCE_S
    begin = min((build["started"] + build["span_s"] for build in builds), default=begin)
    return [item for item in commands if item["step"] == step["id"] and _span(item)[1] >= begin]


def _span(item: Mapping[str, Any], length: float | None = None) -> tuple[float, float]:
    return item["started"], item["started"] + (item["duration_s"] if length is None else length)


def _figure(
    step: Mapping[str, Any],
    builds: Sequence[Mapping[str, Any]],
    commands: Sequence[Mapping[str, Any]],
    now: Sequence[tuple[float, float]],
) -> dict[str, Any]:
    spans = [*map(_span, commands), *(_span(build, build["span_s"]) for build in builds), *now]
    window = Window(min(start for start, _ in spans), max(end for _, end in spans))
    return {
        "name": step["id"],
        "title": step["title"],
        "took": show.duration(window.end - window.start),
        "ninja": _ninja(builds, window) if builds else None,
        "memory": memory_picture(commands, window),
    }


def _unplaced(build: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figure of a folder of which nothing tells when it was built: its own clock counts."""
    return {
        "name": build["folder"],
        "title": "nothing tells when this was built",
        "took": show.duration(build["span_s"]),
        "ninja": _ninja([{**build, "started": 0.0}], Window(0.0, build["span_s"])),
        "memory": None,
        "earlier": 0,
    }


def _ninja(builds: Sequence[Mapping[str, Any]], window: Window) -> dict[str, Any]:
    """Return the pictures of all runs of ninja in a stretch of time."""
    edges = [(build["started"] + edge["start_s"], edge) for build in builds for edge in build["edges"]]
    spans = [(start, start + edge["duration_s"]) for start, edge in edges]
    placed = [
        Placed(edge["output"], start, end, lane)
        for (_, edge), (start, end), lane in zip(edges, spans, lanes(spans), strict=True)
    ]
    kinds = Counter(kind_of(edge["output"]) for _, edge in edges)
    return {
        "folders": ", ".join(dict.fromkeys(build["folder"] for build in builds)),
        "count": len(edges),
        "together": max((edge.lane for edge in placed), default=0) + 1,
        "kinds": dict(sorted(kinds.items())),
        "lanes": lane_picture(placed, window),
        "jobs": jobs_picture(placed, window),
    }


def _share(part: float) -> str:
    percent = 100 * part
    return f"{percent:.0f} %" if percent >= 1 or not percent else "< 1 %"


def _name(output: str, workspace: str) -> str:
    """Return an output from the workspace on: setuptools puts whole paths of sources into its own."""
    return output.rpartition(f"{workspace}/")[2]


def slowest_edges(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the edges that took longest, and what all of them took together."""
    found = [
        {**edge, "folder": build["folder"], "name": _name(edge["output"], document["workspace"])}
        for build in document["builds"]
        for edge in build["edges"]
    ]
    total = sum(edge["duration_s"] for edge in found)
    rows = sorted(found, key=lambda edge: -edge["duration_s"])[:_MOST_SLOWEST]
    longest = rows[0]["duration_s"] if rows else 0.0
    return {
        "rows": [
            {**edge, "percent": f"{100 * edge['duration_s'] / (longest or 1):.1f}",
             "share": _share(edge["duration_s"] / (total or 1))}
            for edge in rows
        ],
        "count": len(found),
        "total": show.duration(total),
    }  # fmt: skip
