"""The table of operators and types: states, known failures, and what was accepted before.

A state is what was measured: passed, failed, skipped, crashed, timed out, not run. Two things are added here:
``known failure`` in place of failed, crashed and timed out where a ``database_known*.json`` says so, and
whether the last accepted run on the same device and driver had the cell as good or bad.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

SCHEMA = "xpubuild.verify-operators/1"
STATES = ("passed", "failed", "known failure", "skipped", "crashed", "timed out", "not run")
BAD = ("failed", "crashed", "timed out")

Cell = tuple[str, str]


def known_failures(path: Path | None = None) -> list[dict[str, Any]]:
    """Return the entries of a list of known failures (default: those that come with the suite)."""
    paths = [path] if path else sorted(Path(__file__).parent.glob("database_known*.json"))
    return [entry for one in paths for entry in json.loads(one.read_text("utf-8"))["failures"]]


def release_of(version: str) -> tuple[int, int]:
    """Return (2, 13) for ``2.13.0+xpu``."""
    major, minor = version.split(".")[:2]
    return int(major), int("".join(ch for ch in minor if ch.isdigit()))


def _holds(entry: Mapping[str, Any], facts: Mapping[str, str], today: datetime.date) -> bool:
    """Whether an entry is for this device and release, and has not expired."""
    first, last = (release_of(one) for one in entry["releases"])
    return (
        entry["device"] == facts["type"]
        and fnmatchcase(facts["device"].lower(), str(entry.get("model", "*")).lower())
        and first <= release_of(facts["torch"]) <= last
        and today <= datetime.date.fromisoformat(entry["expires"])
    )


def _covers(entry: Mapping[str, Any], cell: Mapping[str, Any]) -> bool:
    """Whether an entry is about a cell; where it names parts, all that failed have to be among them."""
    if not any(fnmatchcase(cell["operator"], pattern) for pattern in entry["operators"]):
        return False
    if cell["type"] not in entry.get("types", (cell["type"],)):
        return False
    parts = entry.get("parts")
    return parts is None or cell["state"] not in BAD or set(cell.get("parts", ())) <= set(parts)


class Table:
    """All cells of a run. ``facts`` are device (its name), type, driver and torch."""

    def __init__(
        self, cells: list[Cell], facts: Mapping[str, str], accepted: Mapping[str, Any] | None = None,
        known: Iterable[Mapping[str, Any]] = (), today: datetime.date | None = None,
    ) -> None:  # fmt: skip
        self._cells: dict[Cell, dict[str, Any]] = {
            (name, kind): {"operator": name, "type": kind, "state": "not run", "detail": ""}
            for name, kind in cells
        }
        self.facts = dict(facts)
        today = today or datetime.datetime.now(tz=datetime.timezone.utc).date()
        self._known = [entry for entry in known if _holds(entry, facts, today)]
        self._accepted = _accepted(accepted, facts)

    def add(self, record: Mapping[str, Any]) -> None:
        """Take the state of one cell; what is not in the table is ignored."""
        key = (record["operator"], record["type"])
        if key in self._cells:
            self._cells[key] = dict(record)

    def cells(self) -> list[Cell]:
        """Return all (operator, type)."""
        return list(self._cells)

    def why_not_run(self, reason: str) -> None:
        """Say of each cell without a state why it has none."""
        for cell in self._cells.values():
            if cell["state"] == "not run" and not cell["detail"]:
                cell["detail"] = reason

    def document(self) -> dict[str, Any]:
        """Return the ``xpubuild.verify-operators/1`` document."""
        cells = [self._judged(cell) for cell in self._cells.values()]
        count = {state: sum(cell["state"] == state for cell in cells) for state in STATES}
        runs: dict[str, int] = {}
        for cell in cells:
            for part, number in cell.get("runs", {}).items():
                runs[part] = runs.get(part, 0) + number
        return {
            "schema": SCHEMA,
            **self.facts,
            "compared_with": self._accepted["of"] if self._accepted else "",
            "total": len(cells),
            "operators": len({cell["operator"] for cell in cells}),
            "states": count,
            "runs": runs,
            "unexpected": [_named(cell) for cell in cells if cell.get("unexpected")],
            "regressions": [_named(cell) for cell in cells if cell.get("regression")],
            "accepted": [_named(cell) for cell in cells if cell.get("accepted")],
            "cells": [
                {"operator": cell["operator"], "type": cell["type"], "state": cell["state"],
                 "detail": cell.get("detail", ""), "seconds": cell.get("seconds", 0.0)} for cell in cells
            ],
        }  # fmt: skip

    def _judged(self, cell: dict[str, Any]) -> dict[str, Any]:
        entry = next((one for one in self._known if _covers(one, cell)), None)
        judged, before = dict(cell), self._before(cell)
        if entry is not None and cell["state"] in BAD:
            stated = f"{entry['reason']} ({entry['issue'] or entry['source']}): {cell['detail']}"
            judged |= {"state": "known failure", "detail": stated}
        elif entry is not None and cell["state"] == "passed":
            judged["unexpected"] = True
        if judged["state"] in BAD:
            judged |= {"regression": before == "passed", "accepted": before == "bad"}
        return judged

    def _before(self, cell: Mapping[str, Any]) -> str:
        if not self._accepted:
            return ""
        names = f"{cell['operator']} {cell['type']}"
        return (
            "passed" if names in self._accepted["passed"] else "bad" if names in self._accepted["bad"] else ""
        )


def _named(cell: Mapping[str, Any]) -> str:
    return f"{cell['operator']} {cell['type']}"


def _accepted(stored: Mapping[str, Any] | None, facts: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the accepted result, if it is of this device and driver."""
    if not stored or any(stored.get(name) != facts[name] for name in ("device", "driver")):
        return None
    return {
        "of": f"torch {stored['torch']}",
        "passed": frozenset(stored["passed"]),
        "bad": frozenset(stored["bad"]),
    }


def to_accept(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a baseline keeps of a run: which cells passed and which were bad."""
    cells = document["cells"]
    return {
        "device": document["device"],
        "driver": document["driver"],
        "torch": document["torch"],
        "passed": [_named(cell) for cell in cells if cell["state"] == "passed"],
        "bad": [_named(cell) for cell in cells if cell["state"] in BAD],
    }
