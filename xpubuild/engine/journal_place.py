"""Rewrites the paths of a journal when its workspace was moved to another folder. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

#: How the detail of a step begins that was done before its workspace was moved.
MADE_IN = "made in "
#: The columns of a step that hold paths, as JSON.
_WITH_PATHS = ("evidence", "witnesses", "published")


def led_step(row: Mapping[str, Any], old: str, new: str) -> dict[str, Any]:
    """Return what changes in the row of a step; one that was done says where."""
    changes = {name: json.dumps(led(json.loads(row[name]), old, new)) for name in _WITH_PATHS}
    return {**changes, "detail": f"{MADE_IN}{old}" if row["status"] == "done" else row["detail"]}


def led(value: Any, old: str, new: str) -> Any:
    """Return plain JSON in which every path of one folder is one of another, names of keys too."""
    if isinstance(value, str):
        return new + value[len(old) :] if value == old or value.startswith(f"{old}/") else value
    if isinstance(value, list):
        return [led(item, old, new) for item in value]
    if isinstance(value, dict):
        return {led(key, old, new): led(item, old, new) for key, item in value.items()}
    return value
