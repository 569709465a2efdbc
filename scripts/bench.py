#!/usr/bin/env python3
"""Measures xpubuild beside its peers: one table, one JSON document.

    scripts/bench.py                      the quick rows
    scripts/bench.py --all --output DIR   also those that install, and write DIR/bench.json
    scripts/bench.py --only doctor,plan   rows whose names contain these words
    scripts/bench.py --only cold,warm     what builds torchvision (15 minutes a round); --all leaves it out

The sides of a row run in turn, and a ratio is that of one round, so the load of the machine falls on both;
the table has the median, and in brackets the smallest and the largest. Times of a busy machine say little:
compare the ratios and the processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benching.measure import environment, measure
from benching.rows import XPUBUILD, rows

from xpubuild import __version__
from xpubuild.machine.host_report import host_report

_ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Run the benchmark; status 1 where a row could not be measured."""
    options = _options()
    place = options.place.absolute()
    place.mkdir(parents=True, exist_ok=True)
    workspace = (options.workspace or place / "quickstart").absolute()
    words = [*XPUBUILD, "install", "quickstart", "--workspace", str(workspace), "--quiet"]
    subprocess.run(words, env=environment(), check=True, stdout=subprocess.DEVNULL)
    document = {"created": time.strftime("%Y-%m-%d %H:%M"), "xpubuild": __version__, **_machine()}
    load = [os.getloadavg()[0]]
    found = []
    with tempfile.TemporaryDirectory(dir=place, prefix="run-") as folder:
        for row in rows(workspace, Path(folder)):
            wanted = any(word in row.name for word in options.only) if options.only else True
            if wanted and (options.only or (options.all and not row.named) or not (row.slow or row.named)):
                rounds = options.slow_rounds if row.slow else options.rounds
                sys.stderr.write(f"{row.name}: {rounds} rounds of {len(row.sides)}\n")
                found.append(measure(row, rounds, Path(folder)))
                load.append(os.getloadavg()[0])
    document |= {
        "load": [round(value, 1) for value in load],
        "rows": found,
    }
    sys.stdout.write(table(document) + "\n")
    if options.output is not None:
        options.output.mkdir(parents=True, exist_ok=True)
        (options.output / "bench.json").write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 1 if any(row["failed"] for row in found) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--all", action="store_true", help="run the rows that install, too")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], help="words of row names")
    parser.add_argument("--rounds", type=int, default=7, help="rounds of a quick row")
    parser.add_argument("--slow-rounds", type=int, default=3, help="rounds of a row that installs")
    parser.add_argument("--place", type=Path, default=_ROOT / ".bench", help="where workspaces are made")
    parser.add_argument("--workspace", type=Path, default=None, help="a quickstart (default: one in --place)")
    parser.add_argument("--output", type=Path, default=None, help="folder for bench.json")
    return parser.parse_args()


def _machine() -> dict[str, Any]:
    host = host_report()
    return {
        "machine": {
            "cpu": host.cpu.model,
            "cores": host.cpu.usable,
            "memory_bytes": host.memory.usable_bytes,
            "python": platform.python_version(),
        }
    }


def table(document: dict[str, Any]) -> str:
    """Return the figures as tables of Markdown."""
    lines = ["| what | who | time (s) | processor time (s) | xpubuild / this, time | processor time | goal |",
             "| --- | --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for row in document["rows"]:
        for number, (name, side) in enumerate(row["sides"].items()):
            cells = [_spread(side[key]) if key in side else "" for key in (
                "wall_s", "cpu_s", "ours_to_this_wall", "ours_to_this_cpu")]  # fmt: skip
            first = (row["row"], row["goal"]) if number == 0 else ("", "")
            lines.append(f"| {first[0]} | {name} | {' | '.join(cells)} | {first[1]} |")
        lines += [f"| {row['row']} | {name} | failed: {why} | | | | |" for name, why in row["failed"].items()]
    return "\n".join(lines)


def _spread(values: dict[str, float]) -> str:
    return f"{values['median']:.2f} ({values['low']:.2f} to {values['high']:.2f})" if values else ""


if __name__ == "__main__":
    sys.exit(main())
