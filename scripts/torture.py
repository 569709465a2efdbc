#!/usr/bin/env python3
"""Disturb real installs at random: kills, power cuts, full and failing disks, hostile files.

Each attempt has a seed, which decides what is done. The tortured plan is a checkout with a submodule, a
wheel from an index, a compiled wheel and its install, from servers on loopback. Results are appended to a
file, a line each; seeds that are in it are not tried again. Afterwards the table counts the attempts that
carried on, ended in a clear error, lost something, or let something in.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from support.ordeal import quickstart  # noqa: E402 - tests/ is put on the path above
from support.ordeal.attempts import SHARES, Result, Worker, kind_of  # noqa: E402
from support.ordeal.table import append, failures, read, table  # noqa: E402
from support.ordeal.where import enter, lacking, scratch  # noqa: E402
from support.ordeal.world import small_plan  # noqa: E402


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Run:
    """Attempts by a few workers, until the number or the time is used up."""

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self._options, self._folder = options, folder
        self._mutex = threading.Lock()
        self._until = time.monotonic() + 60 * options.minutes if options.minutes else None
        known = [] if options.seed is not None else read(options.results)
        self._known = {(result.seed, result.kind) for result in known if result.plan == options.plan}
        self._todo = self._seeds()
        self.results: list[Result] = []

    def _seeds(self) -> Iterator[tuple[int, str]]:
        options = self._options
        kinds = tuple(kind for kind in SHARES if kind in options.possible)
        if options.seed is not None:
            yield options.seed, options.kind[0] if len(options.kind) == 1 else kind_of(options.seed, kinds)
            return
        todo = (
            [(seed, kind) for kind in options.kind for seed in range(options.count)]
            if options.each
            else ((seed, kind_of(seed, kinds)) for seed in itertools.count(options.first))
        )
        wanted = ((seed, kind) for seed, kind in todo if kind in options.kind)
        yield from itertools.islice(
            ((seed, kind) for seed, kind in wanted if (seed, kind) not in self._known),
            None if options.each else options.count,
        )

    def _next(self) -> tuple[int, str] | None:
        with self._mutex:
            if self._until is not None and time.monotonic() > self._until:
                return None
            return next(self._todo, None)

    def work(self, number: int) -> None:
        """Make attempts in a folder of this worker's own."""
        options, folder = self._options, self._folder / str(number)
        folder.mkdir()
        with small_plan(folder) as world:
            (folder / "work").mkdir()
            chosen = quickstart.quickstart(world) if options.plan == "quickstart" else world
            worker = Worker.make(chosen, folder / "work")
            while (todo := self._next()) is not None:
                seed, kind = todo
                result = worker.attempt(seed, kind, options.plan)
                with self._mutex:
                    self.results.append(result)
                    append(options.results, result)
                    what = "; ".join(result.notes)[:150]
                    _say(f"{seed:6}  {kind:22} {result.verdict:11} {result.seconds:6.1f} s  {what}")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    add(
        "--plan",
        choices=("small", "quickstart"),
        default="small",
        help="what is installed (default: %(default)s)",
    )
    add("--seed", type=int, help="make this attempt again, and no other")
    add("--first", type=int, default=0, metavar="SEED", help="the first seed (default: %(default)s)")
    add("--count", type=int, default=200, help="attempts to make (default: %(default)s)")
    add("--minutes", type=float, help="begin no attempt after this time")
    add("--kind", action="append", choices=sorted(SHARES), help="make attempts of this kind only; repeatable")
    add("--each", action="store_true", help="make --count attempts of each kind, in this order")
    add("--jobs", type=int, default=2, help="attempts side by side (default: %(default)s)")
    add("--results", type=Path, default=ROOT / ".torture" / "results.jsonl", metavar="FILE",
        help="where results are appended (default: .torture/results.jsonl)")  # fmt: skip
    add("--table", action="store_true", help="print the table of the results, and try nothing")
    options = parser.parse_args(arguments)
    options.results = options.results.resolve()
    plan_kinds = quickstart.KINDS if options.plan == "quickstart" else tuple(SHARES)
    options.possible = options.kind = [kind for kind in options.kind or plan_kinds if kind in plan_kinds]
    if options.plan == "small":
        options.possible = list(plan_kinds)
    return options


def _without_impossible(options: argparse.Namespace) -> None:
    for kind in list(options.kind):
        if missing := lacking(kind):
            _say(f"not possible here: {kind} (it needs {', '.join(missing)})")
            options.kind.remove(kind)


def torture(options: argparse.Namespace) -> int:
    """Make the attempts; return 1 if one of them lost something or let something in."""
    _without_impossible(options)
    options.results.parent.mkdir(parents=True, exist_ok=True)
    place = None if options.plan == "quickstart" else scratch()
    with tempfile.TemporaryDirectory(prefix="torture-", dir=place, ignore_cleanup_errors=True) as folder:
        run = Run(options, Path(folder))
        with ThreadPoolExecutor(options.jobs) as pool, contextlib.suppress(KeyboardInterrupt):
            for done in [pool.submit(run.work, number) for number in range(options.jobs)]:
                done.result()
    failed = failures(run.results)
    for result in failed:
        _say(f"\n{result.verdict}: {again(result)}\n  {'; '.join(result.notes)}\n  {result.reason}")
    _say("\n" + table(run.results))
    return 1 if failed else 0


def again(result: Result) -> str:
    """Return the command that makes an attempt again."""
    plan = "" if result.plan == "small" else f" --plan {result.plan}"
    return f"scripts/torture.py --seed {result.seed} --kind '{result.kind}'{plan}"


def main(arguments: list[str] | None = None) -> int:
    """Run the tool."""
    options = _options(arguments)
    if options.table:
        found = read(options.results)
        _say(table(found))
        for result in failures(found):
            _say(f"\n{result.verdict}: {again(result)}: {'; '.join(result.notes)}: {result.reason}")
        return 0
    os.umask(0o022)
    status = enter([__file__, *(arguments or sys.argv[1:])], network=options.plan == "quickstart")
    return torture(options) if status is None else status


if __name__ == "__main__":
    sys.exit(main())
