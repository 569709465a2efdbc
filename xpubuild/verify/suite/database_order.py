"""The order in which operators run when time is limited: those that programs use most come first."""

from __future__ import annotations

import json
from pathlib import Path


def uses() -> dict[str, int]:
    """Return how often each operator of the database was dispatched (``database_order.json`` says where)."""
    path = Path(__file__).with_name("database_order.json")
    return {str(name): int(count) for name, count in json.loads(path.read_text("utf-8"))["uses"].items()}


def by_use(names: list[str]) -> list[str]:
    """Return names of the database, the most used first; the others keep their order."""
    counted = uses()
    return sorted(names, key=lambda name: -counted.get(name, 0))
