#!/usr/bin/env python3
"""Break one operator of a good torch at a time and see which cases of the operator tables notice.

Each mutant replaces the kernels of one operator (all overloads, in-place and out= too) for the device
through the dispatcher, so that the result is slightly wrong. A recorded map says which cases call the
operator in a way in which that shows; they run until the first one fails. References come from the unbroken
torch. Needs torch 2.10 or newer in this interpreter. Results are appended to OUT as they come, and what all
runs share (references, the map) to a folder: the same command goes on where it stopped. --processes spreads
all of it over processes of this machine.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

from mutation import spread
from mutation.broken import MUTATIONS, Broken
from mutation.tables import TABLES, Bench, OutOfTimeError

#: A mutant in which a case hangs; verify would time out.
_HANGS_S = 300
#: What became of a mutant.
RESULTS = ("caught", "survived", "never met", "never called", "does not apply")


def attempt(bench: Bench, name: str, mutation: str) -> dict[str, Any]:
    """Return what became of a mutant, with the case that caught it or why it does not apply."""
    began, ran = time.monotonic(), 0
    cases = bench.calling(name, mutation)
    with Broken(bench.torch, name, mutation, bench.backend.dispatch_key):
        for key in cases:
            ran += 1
            problem = bench.run(*key)
            if problem:
                by = "/".join(filter(None, key))
                return {"result": "caught", "by": by, "said": problem[:160], "cases": ran,
                        "s": round(time.monotonic() - began, 2)}  # fmt: skip
    why = "" if cases else bench.cannot(name, mutation)
    if why:
        return {"result": "does not apply", "why": why}
    result = "survived" if cases else "never met" if bench.calling(name) else "never called"
    return {"result": result, "cases": ran, "s": round(time.monotonic() - began, 2)}


def wanted(options: argparse.Namespace, bench: Bench) -> list[tuple[str, str]]:
    """Return the mutants of a run in their order: a random sample comes first."""
    if options.pick:
        return [tuple(text.split("/")[:2]) for text in options.pick]
    every = [(name, mutation) for name in bench.names for mutation in MUTATIONS if options.only in name]
    random.Random(options.seed).shuffle(every)  # noqa: S311 - a sample
    return every[: options.sample or None]


def work(options: argparse.Namespace, end: float) -> None:
    """Run a part of the mutants, or make what they need, until it is done or the time is over."""
    picked = [text.split("/", 3)[2:] for text in options.pick]
    tables = tuple(dict.fromkeys(words[0] for words in picked)) or TABLES
    only = frozenset(name for words in picked for name in words[1:])
    part = spread.part_of(options.part)
    bench = Bench(options.device, options.cache, tables, end, only=only, turn=(options.phase, part))
    if options.phase == "references":
        return
    if options.phase == "mutants":
        for name, mutation in spread.share(wanted(options, bench), part):
            _judge(options, bench, (name, mutation))


def _judge(options: argparse.Namespace, bench: Bench, mutant: tuple[str, str]) -> None:
    """Run one mutant and store what became of it, unless that is known."""
    name, mutation = mutant
    line = {"op": name, "mutation": mutation}
    if any("result" in one and line.items() <= one.items() for one in spread.read(options.out)):
        return
    if time.monotonic() > bench.end:
        raise OutOfTimeError
    if not bench.healthy():
        raise RuntimeError("the device does not compute")
    spread.append(options.out, {**line, "part": options.part})
    signal.alarm(_HANGS_S)  # ends this process: the other one blames the mutant
    found = attempt(bench, name, mutation)
    signal.alarm(0)
    spread.append(options.out, {**line, "part": options.part, **found})
    if not bench.healthy():
        spread.end_sick()


def summary(path: Path) -> str:
    """Return the table of a results file: mutations by result, and the mutants that were not caught."""
    found = {(one["op"], one["mutation"]): one for one in spread.read(path) if "result" in one}
    lines = ["| mutation | " + " | ".join(RESULTS) + " |", "| --- |" + " ---: |" * len(RESULTS)]
    for mutation in (*MUTATIONS, "all"):
        of = [one for one in found.values() if mutation in (one["mutation"], "all")]
        counts = [sum(one["result"] == result for one in of) for result in RESULTS]
        lines.append(f"| {mutation} | " + " | ".join(map(str, counts)) + " |")
    counted = [one for one in found.values() if one["result"] != "does not apply"]
    caught = sum(one["result"] == "caught" for one in counted)
    lines.append(f"\n{caught} of {len(counted)} mutants were caught ({caught / max(len(counted), 1):.1%}).\n")
    for result in RESULTS[1:]:
        named = sorted(
            f"{one['op']}/{one['mutation']}" + (f" ({one['why']})" if "why" in one else "")
            for one in found.values()
            if one["result"] == result
        )
        lines.append(f"{result}: {', '.join(named) or 'none'}\n")
    return "\n".join(lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda", "xpu"))
    parser.add_argument("--out", type=Path, default=Path("operator-mutants.jsonl"))
    parser.add_argument(
        "--cache", type=Path, help="folder for what runs share (default: operator-mutants beside OUT)"
    )
    parser.add_argument("--sample", type=int, default=0, help="number of mutants (default: all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0, help="stop after this time, set-up included")
    parser.add_argument("--only", default="", help="part of the operators' names")
    parser.add_argument(
        "--pick", action="append", default=[], help="OPERATOR/MUTATION/TABLE, and /CASE for that one alone"
    )
    parser.add_argument("--summary", action="store_true", help="print the table of OUT alone")
    parser.add_argument("--processes", type=int, default=1, help="how many share the work (default: 1)")
    parser.add_argument("--phase", default="mutants", choices=spread.PHASES, help=argparse.SUPPRESS)
    parser.add_argument("--part", default="0/1", help=argparse.SUPPRESS)
    parser.add_argument("--end", type=float, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.cache = options.cache or options.out.resolve().parent / "operator-mutants"
    return options


def main() -> int:
    """Run the tool; status 1 where a process died without a mutant to blame."""
    options = _options()
    if options.end:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
        try:
            work(options, options.end)
        except OutOfTimeError:
            sys.stderr.write("the time is over; the same command goes on\n")
        return 0
    end = time.monotonic() + (options.seconds or 1e9)
    command = [sys.executable, __file__, *sys.argv[1:]]
    if not options.summary and not spread.run(command, options.processes, end, options.out):
        return 1
    sys.stdout.write(summary(options.out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
