#!/usr/bin/env python3
"""Show that each workload runs on the device, and that it fails where an operator that it calls is broken.

A workload is a case of the tables of the group "workloads". Its plain run is profiled; then each operator
that it calls is made wrong by 1 %, one at a time, and it has to fail. Results are appended to OUT, so that
the same command goes on where it stopped; --summary prints the table of OUT. Needs torch 2.10 or newer here.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path
from typing import Any

from mutation import spread
from mutation.broken import Broken
from mutation.tables import Bench, OutOfTimeError

TABLES = ("decoder", "attention", "optimisers", "blocks", "numerics")
#: Mutations that are tried of each operator: numbers that round, and what has none.
_WRONG = ("percent", "block")


def kernels(bench: Bench, key: tuple[str, str]) -> int | None:
    """Return how many kernels the plain run launched on the device, None where no profiler can tell."""
    placement = importlib.import_module(f"{bench.package}.placement")
    case, expected = bench.cases[key], bench.references.STORE[key[0]][key[1]]
    run = bench.operators._runs(bench.context, case, expected)[0]
    _, recorded = placement.recorded(
        bench.context, lambda: bench.operators._compare(bench.context, case, run, expected[run[1]])
    )
    return None if recorded.names is None else len(recorded.kernels)


def proof(bench: Bench, key: tuple[str, str]) -> dict[str, Any]:
    """Return the kernels of a workload and which broken operators it notices."""
    began, noticed = time.monotonic(), {}
    found = kernels(bench, key) if bench.backend.streams else None
    for name in bench.called(key):
        said = None
        for mutation in _WRONG:
            if said is None and key in bench.calling(name, mutation):
                with Broken(bench.torch, name, mutation, bench.backend.dispatch_key):
                    said = bench.run(*key)
        noticed[name] = said is not None
        if not bench.healthy():
            raise RuntimeError(f"the device does not compute after {name}")
    return {"kernels": found, "operators": noticed, "s": round(time.monotonic() - began, 2)}


def summary(path: Path) -> str:
    """Return the table of a results file."""
    lines = ["| workload | kernels | operators called | noticed | not noticed |",
             "| --- | ---: | ---: | ---: | --- |"]  # fmt: skip
    blind = []
    for one in spread.read(path):
        said = one["operators"]
        missed = [name for name, noticed in said.items() if not noticed]
        blind += [one["workload"]] if len(missed) == len(said) else []
        count = "-" if one["kernels"] is None else one["kernels"]
        row = [one["workload"], count, len(said), len(said) - len(missed), ", ".join(missed)]
        lines.append("| " + " | ".join(map(str, row)) + " |")
    return "\n".join([*lines, "", f"Notice nothing: {', '.join(blind) or 'none'}"]) + "\n"


def main() -> int:
    """Run the tool; status 1 where a workload fails on the unbroken torch."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "xpu"))
    parser.add_argument("--out", type=Path, default=Path("workload-proof.jsonl"))
    parser.add_argument("--cache", type=Path, help="folder of operator-mutants (default: beside OUT)")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--part", default="0/1", help="K/N: the part K of N of the workloads")
    parser.add_argument("--summary", action="store_true", help="print the table of OUT alone")
    options = parser.parse_args()
    if options.summary:
        sys.stdout.write(summary(options.out))
        return 0
    cache = options.cache or options.out.resolve().parent / "operator-mutants"
    done = {one["workload"] for one in spread.read(options.out)}
    end = time.monotonic() + options.seconds
    try:
        part = spread.part_of(options.part)
        bench = Bench(options.device, cache, TABLES, end, turn=("records", part))
        for key in bench.cases:
            if time.monotonic() > end:
                break
            if "/".join(key) not in done and bench.called(key):
                spread.append(options.out, {"workload": "/".join(key), **proof(bench, key)})
    except OutOfTimeError:
        sys.stderr.write("the time is over; the same command goes on\n")
    sys.stdout.write(summary(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
