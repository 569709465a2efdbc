"""The results of attempts, a line each in a file, and the table of them."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from support.ordeal.attempts import Result
from support.ordeal.judge import LET_IN, LOST, VERDICTS


def read(path: Path) -> list[Result]:
    """Return the last result of each plan, seed and kind; a line that a kill cut is left out."""
    found: dict[tuple[str, int, str], Result] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            result = Result(**json.loads(line))
        except (json.JSONDecodeError, TypeError):
            continue
        found[result.plan, result.seed, result.kind] = result
    return list(found.values())


def append(path: Path, result: Result) -> None:
    """Add a line, after one that may be cut."""
    with path.open("a", encoding="utf-8") as file:
        if file.tell() and not path.read_bytes().endswith(b"\n"):
            file.write("\n")
        file.write(json.dumps(asdict(result)) + "\n")


def table(results: Iterable[Result]) -> str:
    """Return the markdown table: a row for each plan and kind."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        name = result.kind if result.plan == "small" else f"{result.kind} of {result.plan}"
        rows[name].update({"attempts": 1, "disturbances": result.hits, result.verdict: 1})
    total: Counter[str] = sum(rows.values(), Counter())
    columns = ("attempts", "disturbances", *VERDICTS)
    lines = [f"| | {' | '.join(columns)} |", "| --- " + "| ---: " * len(columns) + "|"]
    for name, row in [*sorted(rows.items()), ("all", total)]:
        cells = [str(row[column]) for column in columns]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def failures(results: Iterable[Result]) -> list[Result]:
    return [result for result in results if result.verdict in (LOST, LET_IN)]
