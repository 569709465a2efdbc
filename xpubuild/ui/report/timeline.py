"""The steps of a report on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.ui import wording as show
from xpubuild.ui.report.axis import Axis

#: Percent of the width that a bar has at least, to be seen.
_NARROWEST = 0.4


def timeline(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return for each step its bars, one per command of any attempt, and the pauses between attempts."""
    spans = [(item["started"], item["started"] + item["duration_s"]) for item in document["commands"]]
    spans += [
        (step["started"], step["started"] + duration)
        for step in document["steps"]
        if (duration := _duration(step, document)) is not None
    ]
    axis = Axis(spans)
    rows = [
        {
            "step": step,
            "bars": [
                {**_bar(axis, item["started"], item["duration_s"]), "bad": item["returncode"] != 0}
                for item in document["commands"]
                if item["step"] == step["id"]
            ],
            "whole": _whole(axis, step, document),
        }
        for step in document["steps"]
    ]
    return {"rows": rows, "ran": show.duration(axis.ran_s), "pauses": _pauses(axis)}


def _duration(step: Mapping[str, Any], document: Mapping[str, Any]) -> float | None:
    """Return how long a step took, or has run by now; None where it never began or nothing saw its end."""
    now = step["status"] == "running"
    return float(document["created"] - step["started"]) if now else step["duration_s"]


def _whole(axis: Axis, step: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, str] | None:
    duration = _duration(step, document)
    return None if duration is None else _bar(axis, step["started"], duration)


def _bar(axis: Axis, start: float, duration: float) -> dict[str, str]:
    left, right = axis.at(start), axis.at(start + duration)
    width = max(right - left, _NARROWEST)
    return {"left": f"{min(left, 100 - width):.2f}", "width": f"{width:.2f}"}


def _pauses(axis: Axis) -> Sequence[Mapping[str, str]]:
    return [{"at": f"{pause.at:.2f}", "took": show.duration(pause.seconds)} for pause in axis.pauses]
