"""PyTorch's operator database as a table and a picture, for a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_HIGH, _WIDE, _MOST_BAD = 10, 1000, 300
_BAD = ("failed", "crashed", "timed out", "known failure")


def operator_table(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many operators of each type are in each state, a picture, and what did not pass."""
    cells = document["cells"]
    states = list(document["states"])
    types = list(dict.fromkeys(cell["type"] for cell in cells))
    counts = {kind: dict.fromkeys(states, 0) for kind in types}
    for cell in cells:
        counts[cell["type"]][cell["state"]] += 1
    bad = [cell for cell in cells if cell["state"] in _BAD]
    return {
        "states": states,
        "rows": [(kind, [counts[kind][state] for state in states]) for kind in types],
        "all": [document["states"][state] for state in states],
        "picture": _picture(cells, types),
        "bad": bad[:_MOST_BAD],
        "more": max(0, len(bad) - _MOST_BAD),
    }


def _picture(cells: Sequence[Mapping[str, Any]], types: Sequence[str]) -> dict[str, Any]:
    """Return one column per operator and one row per type: a path for each state."""
    column = {name: number for number, name in enumerate(sorted({cell["operator"] for cell in cells}))}
    row = {kind: number for number, kind in enumerate(types)}
    width = _WIDE / max(1, len(column))
    paths: dict[str, list[str]] = {}
    for cell in cells:
        left, top = column[cell["operator"]] * width, row[cell["type"]] * _HIGH
        shape = f"M{left:.1f} {top}h{width:.2f}v{_HIGH - 1}h-{width:.2f}z"
        paths.setdefault(cell["state"], []).append(shape)
    return {
        "height": len(types) * _HIGH,
        "paths": [{"state": state, "d": "".join(shapes)} for state, shapes in sorted(paths.items())],
        "operators": len(column),
    }
