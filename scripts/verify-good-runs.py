#!/usr/bin/env python3
"""Run verify again and again on a good torch: a check that fails there is a false alarm.

Each result is appended to OUT as a line, so that the same command goes on where it stopped; several processes
with files of their own spread the runs, and --summary reads them all. Ends with status 1 after a false alarm.
Memory is that of all processes of a run together, sampled twice a second; what they share counts for each.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

_BAD = ("fail", "crash", "timeout")
_DEADLINE_S = 3600
_SAMPLE_S = 0.5


class Memory:
    """The largest memory, in MiB, that the processes below this one and the device have held meanwhile."""

    def __init__(self, device: str) -> None:
        self.host = self.device = 0.0
        self._asked = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
        self._of_device, self._over = device == "cuda", threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(_SAMPLE_S):
            held = 0
            for one in psutil.Process().children(recursive=True):
                try:
                    held += one.memory_info().rss
                except psutil.Error:  # it ended
                    continue
            self.host = max(self.host, held / 2**20)
            if self._of_device:
                done = subprocess.run(self._asked, capture_output=True, text=True, check=False, timeout=60)
                self.device = max([self.device, *map(float, done.stdout.split())])


def run(options: argparse.Namespace, suite: str) -> dict[str, Any]:
    """Return what one run came to: counts of results, and the checks that failed."""
    argv = [sys.executable, "-m", "xpubuild", "verify", "--python", options.python, "--device",
            options.device, "--suite", suite, "--json", "-q", *options.more]  # fmt: skip
    load, began = os.getloadavg()[0], time.monotonic()
    with Memory(options.device) as memory:
        done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=_DEADLINE_S)
    if not done.stdout.startswith("{"):
        raise RuntimeError(f"verify ended with {done.returncode}: {done.stderr[-2000:]}")
    report = json.loads(done.stdout)
    if options.reports:
        options.reports.mkdir(parents=True, exist_ok=True)
        (options.reports / f"{suite}-{time.time():.0f}.json").write_text(done.stdout, "utf-8")
    bad = [
        {name: check[name] for name in ("id", "status", "detail", "output")}
        for check in report["checks"] if check["status"] in _BAD
    ]  # fmt: skip
    return {
        "suite": suite, "torch": report["torch"].get("version", "?"), "device": options.device,
        "date": time.strftime("%Y-%m-%d"), "load": round(load, 1), "s": round(time.monotonic() - began, 1),
        "mib": round(memory.host), "device_mib": round(memory.device),
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
    heads = [
        "torch",
        "device",
        "suite",
        "runs",
        "passed",
        "skipped",
        "failed",
        "seconds",
        "load",
        "GiB",
        "GiB of the device",
    ]
    lines = ["| " + " | ".join(heads) + " |", "| --- | --- | --- |" + " ---: |" * 8]
    for key, of in sorted(groups.items()):
        counts = collections.Counter[str]()
        for one in of:
            counts.update(one["counts"])
        seconds, loads = (sorted(one[name] for one in of) for name in ("s", "load"))
        row = [*key, len(of), counts["pass"], counts["skip"], sum(counts[name] for name in _BAD),
               f"{seconds[0]:.0f} to {seconds[-1]:.0f}", f"{loads[0]} to {loads[-1]}",
               *(_gibibytes(of, name) for name in ("mib", "device_mib"))]  # fmt: skip
        lines.append("| " + " | ".join(map(str, row)) + " |")
    alarms = [f"- {one['torch']}, {one['suite']}: {bad['id']} ({bad['status']}): {bad['detail']}"
              for one in runs for bad in one["bad"]]  # fmt: skip
    return "\n".join([*lines, "", *(alarms or ["No false alarm."])]) + "\n"


def _gibibytes(runs: list[dict[str, Any]], name: str) -> str:
    most = max(one.get(name, 0) for one in runs)
    return f"{most / 1024:.1f}" if most else "-"


def main() -> int:
    """Run the tool."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter with the good torch")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "xpu"))
    parser.add_argument("--suite", action="append", default=[], help="SUITE=RUNS, such as smoke=20")
    parser.add_argument("--out", action="append", type=Path, default=[], help="default: good-runs.jsonl")
    parser.add_argument("--reports", type=Path, help="folder for the report of each run")
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
