"""A report as trace events, which chrome://tracing, Perfetto and others show.

The JSON object form of the Trace Event Format:
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
("X" is a span, "C" a counter, "M" a name; times in microseconds).
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpubuild.workspace.report_lanes import lanes

_MICROSECONDS = 1e6
_STEPS = 1


def trace(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the trace of an ``xpubuild.report/1`` document: steps, commands, edges of ninja, memory.

    Times count from the first command. A run of ninja whose begin is not known begins there too.
    """
    commands, builds = document["commands"], document["builds"]
    begins = [item["started"] for item in (*commands, *builds) if item["started"] is not None]
    zero = min(begins, default=0.0)
    events = [*_command_events(document, zero)]
    for number, build in enumerate(builds, _STEPS + 1):
        events += _build_events(build, number, zero)
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"workspace": document["workspace"]}}


def _name(process: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": name}}


def _span(process: int, lane: int, name: str, start: float, duration: float, **about: Any) -> dict[str, Any]:
    category = about.pop("cat")
    return {
        "ph": "X", "pid": process, "tid": lane, "name": name, "cat": category,
        "ts": round(start * _MICROSECONDS), "dur": round(duration * _MICROSECONDS), "args": about,
    }  # fmt: skip


def _command_events(document: Mapping[str, Any], zero: float) -> Iterator[dict[str, Any]]:
    commands: Sequence[Mapping[str, Any]] = document["commands"]
    yield _name(_STEPS, f"xpubuild {document['recipe']}")
    spans = [(item["started"] - zero, item["started"] - zero + item["duration_s"]) for item in commands]
    for item, (start, _), lane in zip(commands, spans, lanes(spans), strict=True):
        yield _span(
            _STEPS, lane, item["step"], start, item["duration_s"], cat="step",
            command=shlex.join(item["argv"]), returncode=item["returncode"], peak_bytes=item["peak_bytes"],
            user_s=item["user_s"], system_s=item["system_s"],
        )  # fmt: skip
        for at_s, count in item["memory"]:
            yield {
                "ph": "C", "pid": _STEPS, "tid": 0, "name": f"memory of {item['step']} (bytes)",
                "ts": round((start + at_s) * _MICROSECONDS), "args": {"bytes": count},
            }  # fmt: skip


def _build_events(build: Mapping[str, Any], number: int, zero: float) -> Iterator[dict[str, Any]]:
    yield _name(number, f"ninja in {build['folder']}")
    begin = build["started"] - zero if build["started"] is not None else 0.0
    edges = build["edges"]
    spans = [(begin + edge["start_s"], begin + edge["start_s"] + edge["duration_s"]) for edge in edges]
    for edge, (start, _), lane in zip(edges, spans, lanes(spans), strict=True):
        yield _span(number, lane, edge["output"], start, edge["duration_s"], cat="ninja", step=build["step"])
