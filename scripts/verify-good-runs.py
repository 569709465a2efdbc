#!/usr/bin/env python3
"""Run verify again and again on a good torch: a check that fails there is a false alarm.

Each result is appended to OUT as a line, so that the same command goes on where it stopped. Prints a table of
all lines of OUT, and ends with status 1 after a false alarm.
"""

from __future__ import annotations

import argparse
import collections
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_BAD = ("fail", "crash", "timeout")
_DEADLINE_S = 3600


def run(options: argparse.Namespace, suite: str) -> dict[str, Any]:
    """Return what one run came to: counts of results, and the checks that failed."""
    argv = [sys.executable, "-m", "xpubuild", "verify", "--python", options.python, "--device",
            options.device, "--suite", suite, "--json", "-q", *options.more]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"verify ended with {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    bad = [
        {name: check[name] for name in ("id", "status", "detail", "output")}
        for check in report["checks"] if check["status"] in _BAD
    ]  # fmt: skip
    return {"suite": suite, "torch": report["torch"].get("version", "?"), "device": options.device,
            "s": round(time.monotonic() - began, 1), "counts": report["summary"], "bad": bad}  # fmt: skip


def summary(runs: list[dict[str, Any]]) -> str:
    """Return the table of runs by torch and suite, and each false alarm."""
    groups = collections.defaultdict(list)
    for one in runs:
        groups[one["torch"], one["device"], one["suite"]].append(one)
    lines = ["| torch | device | suite | runs | passed | skipped | failed | seconds |",
             "| --- | --- | --- |" + " ---: |" * 5]  # fmt: skip
    for key, of in sorted(groups.items()):
        counts = collections.Counter[str]()
        for one in of:
            counts.update(one["counts"])
        seconds = sorted(one["s"] for one in of)
        row = [*key, len(of), counts["pass"], counts["skip"], sum(counts[name] for name in _BAD),
               f"{seconds[0]:.0f} to {seconds[-1]:.0f}"]  # fmt: skip
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
    parser.add_argument("--out", type=Path, default=Path("good-runs.jsonl"))
    parser.add_argument("more", nargs="*", metavar="...", help="options for verify, after --")
    options = parser.parse_args()
    options.out.touch()
    runs = [json.loads(line) for line in options.out.read_text("utf-8").splitlines()]
    for suite, _, wanted in (text.partition("=") for text in options.suite):
        for _number in range(int(wanted or 1) - sum(one["suite"] == suite for one in runs)):
            runs.append(run(options, suite))
            with options.out.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(runs[-1]) + "\n")
    sys.stdout.write(summary(runs))
    return int(any(one["bad"] for one in runs))


if __name__ == "__main__":
    sys.exit(main())
