#!/usr/bin/env python3
"""Run verify again and again on a good torch: a check that fails there is a false alarm.

Each result is appended to OUT as a line, so that the same command goes on where it stopped; several processes
with files of their own spread the runs, and --summary reads them all. Ends with status 1 after a false alarm.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BAD = ("fail", "crash", "timeout")
_DEADLINE_S = 3600


def run(options: argparse.Namespace, suite: str) -> dict[str, Any]:
    """Return what one run came to: counts of results, and the checks that failed."""
    argv = [sys.executable, "-m", "xpubuild", "verify", "--python", options.python, "--device",
            options.device, "--suite", suite, "--json", "-q", *options.more]  # fmt: skip
    load, began = os.getloadavg()[0], time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"verify ended with {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    bad = [
        {name: check[name] for name in ("id", "status", "detail", "output")}
        for check in report["checks"] if check["status"] in _BAD
    ]  # fmt: skip
    return {
        "suite": suite, "torch": report["torch"].get("version", "?"), "device": options.device,
        "date": time.strftime("%Y-%m-%d"), "load": round(load, 1), "s": round(time.monotonic() - began, 1),
        "counts": report["summary"], "bad": bad,
    }  # fmt: skip


def read(paths: list[Path]) -> Iterator[dict[str, Any]]:
    """Return the runs in some files."""
    for path in paths:
        if path.is_file():
            yield from map(json.loads, path.read_text("utf-8").splitlines())


def summary(runs: list[dict[str, Any]]) -> str:
    """Return the table of runs by torch and suite, and each false alarm."""
    groups = collections.defaultdict(list)
    for one in runs:
        groups[one["torch"], one["device"], one["suite"]].append(one)
    lines = ["| torch | device | suite | runs | passed | skipped | failed | seconds | load |",
             "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for key, of in sorted(groups.items()):
        counts = collections.Counter[str]()
        for one in of:
            counts.update(one["counts"])
        seconds, loads = (sorted(one[name] for one in of) for name in ("s", "load"))
        row = [*key, len(of), counts["pass"], counts["skip"], sum(counts[name] for name in _BAD),
               f"{seconds[0]:.0f} to {seconds[-1]:.0f}", f"{loads[0]} to {loads[-1]}"]  # fmt: skip
        lines.append("| " + " | ".join(map(str, row)) + " |")
    alarms = [f"- {one['torch']}, {one['suite']}: {bad['id']} ({bad['status']}): {bad['detail']}"
              for one in runs for bad in one["bad"]]  # fmt: skip
    return "\n".join([*lines, "", *(alarms or ["No false alarm."])]) + "\n"


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter with the good torch")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "xpu"))
    parser.add_argument("--suite", action="append", default=[], help="SUITE=RUNS, such as smoke=20")
    parser.add_argument("--out", action="append", type=Path, default=[], help="default: good-runs.jsonl")
    parser.add_argument("--seconds", type=float, default=0, help="start no run after this time")
    parser.add_argument("--summary", action="store_true", help="print the table of all --out alone")
    parser.add_argument("more", nargs="*", metavar="...", help="options for verify, after --")
    options = parser.parse_args()
    options.out = options.out or [Path("good-runs.jsonl")]
    end = time.monotonic() + (options.seconds or 1e9)
    done = collections.Counter(one["suite"] for one in read(options.out[:1]))
    for suite, _, wanted in (text.partition("=") for text in options.suite):
        for _number in range(int(wanted or 1) - done[suite]):
            if options.summary or time.monotonic() > end:
                break
            found = run(options, suite)
            with options.out[0].open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(found) + "\n")
    runs = list(read(options.out))
    sys.stdout.write(summary(runs))
    return int(any(one["bad"] for one in runs))


if __name__ == "__main__":
    sys.exit(main())
