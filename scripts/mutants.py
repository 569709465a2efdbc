#!/usr/bin/env python3
"""Change the program in a sample of places, one at a time, and see whether the tests notice.

Each mutant is tried in a copy of the tree, with the tests that run its line. scripts/mutation/scope.yaml says
which sources and tests. What is known is kept in .mutants/: the map of lines and tests, which the first run
records (that takes as long as the tests on one core for each job), and results.jsonl.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from mutation.coverage_map import Map, digest, record
from mutation.edits import Mutant
from mutation.project import Project
from mutation.trial import Workspace, container, files_of, verdict

STATUSES = ("killed", "timeout", "survived", "no coverage", "broken")
_NOTICED = ("killed", "timeout")
Result = dict[str, Any]


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _record(lines: Map, project: Project, spaces: SimpleQueue[Workspace], pool: ThreadPoolExecutor) -> None:
    batches = lines.missing()
    if not batches:
        return
    _say(f"recording which lines the tests of {sum(map(len, batches))} files run")

    def one(batch: list[str]) -> str:
        space = spaces.get()
        try:
            return record(
                space, lines.folder, batch, project.scope["sources"], project.scope["without_fixtures"]
            )
        finally:
            spaces.put(space)

    futures = {pool.submit(one, batch): batch for batch in batches}
    for future in as_completed(futures):
        _say(f"{future.result()}recorded: {' '.join(futures[future])}")


def _passes(test: str, space: Workspace, few: list[str], lines: Map, options: argparse.Namespace) -> bool:
    """Whether a test that failed passes unchanged, after the same ones; asked once of each test."""
    if test not in lines.sound:
        until = few[: few.index(test) + 1]
        run = space.pytest(files_of(until), {"tests": until}, options.budget)
        if run.status != 0:
            _say(f"not used, it fails unchanged here: {test}")
            lines.seconds.pop(test, None)
            return False
        lines.sound.add(test)
    return True


def _rounds(tests: list[str], lines: Map, options: argparse.Namespace) -> Iterator[list[str]]:
    """Yield the tests of a mutant: as many as fit a third of the budget at a time, a slow one alone."""
    for _ in range(options.rounds):
        if few := lines.few(tests, options.tests, options.budget / 3) or tests[:1]:
            yield list(few)
        tests = [test for test in tests if test not in few]


def _judge(
    changed: tuple[str, str], few: list[str], space: Workspace, lines: Map, options: argparse.Namespace
) -> tuple[str, str]:
    """Try a text of a file on these tests; those that fail without the change are removed."""
    status, by = "survived", ""
    while few:
        budget_s = max(options.budget, 3 * sum(lines.seconds[test] for test in few))
        status, by = verdict(space, *changed, few, budget_s)
        if status != "killed" or by not in few or _passes(by, space, few, lines, options):
            break
        few.remove(by)
        status, by = "broken", "its tests fail unchanged"
    return status, by


def _try(
    mutant: Mutant, project: Project, lines: Map, spaces: SimpleQueue[Workspace], options: argparse.Namespace
) -> Result:
    text = project.texts[mutant.path]
    tests = lines.candidates(mutant, text)
    status, by = "no coverage", ""
    if not lines.knows(mutant.path, text):
        by = "the file is newer than the map"
    space = spaces.get()
    tried = 0
    try:
        for few in _rounds(tests, lines, options):
            status, by = _judge((mutant.path, mutant.apply(text)), few, space, lines, options)
            tried += len(few)
            if status != "survived":
                break
        reading = project.scope["reading"]
        if reading and status in ("survived", "no coverage"):
            seen, test = verdict(space, mutant.path, mutant.apply(text), reading, options.budget)
            if seen == "killed" and _passes(test, space, reading, lines, options):
                status, by = seen, test
    finally:
        spaces.put(space)
    return {
        "id": mutant.id, "path": mutant.path, "line": mutant.line, "kind": mutant.kind,
        "status": status, "by": by, "tests": tried, "of": len(tests), "diff": project.diff(mutant),
        "allowed": [options.tests * options.rounds, options.budget],
    }  # fmt: skip


def _known(path: Path, tree: str, options: argparse.Namespace) -> dict[str, Result]:
    """Return the results of earlier runs on the same tree.

    A mutant that nobody noticed is tried again where that run left tests out and this one allows more.
    """
    found = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        try:
            result = json.loads(line)
        except json.JSONDecodeError:
            continue
        if result["tree"] != tree or result["status"] == "broken":
            continue
        tests, seconds = result["allowed"]
        enough = tests >= options.tests * options.rounds and seconds >= options.budget
        if result["status"] in _NOTICED or 0 < result["tests"] == result["of"] or enough:
            found[result["id"]] = result
    return found


def _identity(project: Project, test_files: list[str], options: argparse.Namespace) -> str:
    """Return a digest of the tree: results of another one do not count."""
    folders = [*project.scope["sources"], *project.scope["tests"], *options.test_folders]
    contents = [(name, digest(project.root / name)) for name in project.below(folders)]
    return hashlib.sha256(repr((contents, test_files)).encode()).hexdigest()[:16]


@contextlib.contextmanager
def _workspaces(project: Project, jobs: int) -> Iterator[tuple[ThreadPoolExecutor, SimpleQueue[Workspace]]]:
    """Make a workspace for each job, in which the tree is shown to be what Python imports."""
    with (
        tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as scratch,
        ThreadPoolExecutor(jobs) as pool,
    ):
        made = [Workspace(project.root, Path(scratch) / str(job)) for job in range(jobs)]
        spaces: SimpleQueue[Workspace] = SimpleQueue()
        try:
            for space in made:
                space.prove({name: f"{name}/__init__.py" for name in project.scope["sources"]})
                spaces.put(space)
            yield pool, spaces
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for space in made:
                space.close()


def run(project: Project, chosen: list[Mutant], options: argparse.Namespace) -> list[Result]:
    """Try mutants; return their results, those of an earlier run with --resume."""
    state = project.root / ".mutants"
    state.mkdir(exist_ok=True)
    test_files = [name for name in project.below(options.test_folders) if Path(name).name.startswith("test_")]
    tree = _identity(project, test_files, options)
    known = _known(state / "results.jsonl", tree, options) if options.resume else {}
    results = [known[mutant.id] for mutant in chosen if mutant.id in known]
    with (
        (state / "results.jsonl").open("a", encoding="utf-8") as log,
        _workspaces(project, options.jobs) as (pool, spaces),
    ):
        log.write("\n")  # the last line of a run that was killed may be cut
        _record(Map(state / "map", project.root, test_files), project, spaces, pool)
        lines = Map(state / "map", project.root, test_files)
        todo = [mutant for mutant in chosen if mutant.id not in known]
        futures = [pool.submit(_try, mutant, project, lines, spaces, options) for mutant in todo]
        for future in as_completed(futures):
            result = future.result() | {"tree": tree}
            results.append(result)
            log.write(json.dumps(result) + "\n")
            log.flush()
            place = f"{result['path']}:{result['line']}"
            _say(f"{result['status']:11}  {result['id']}  {place}  {result['kind']}  {result['by']}")
    return results


def report(results: list[Result], left_out: Counter[str]) -> dict[str, Any]:
    """Return the table of a run as a document: a row for each package, the mutants that nobody noticed."""
    rows: dict[str, Counter[str]] = defaultdict(Counter)
    for result in results:
        for name in (
            "/".join(Path(result["path"]).parts[:2]) if result["path"].count("/") > 1 else "(top)",
            "all",
        ):
            rows[name][result["status"]] += 1
    table = []
    for name in sorted(rows, key=lambda name: (name == "all", name)):
        judged = sum(rows[name][status] for status in STATUSES if status != "broken")
        noticed = sum(rows[name][status] for status in _NOTICED)
        percent = round(100 * noticed / judged, 1) if judged else None
        table.append(
            {
                "package": name,
                "mutants": rows[name].total(),
                **{s: rows[name][s] for s in STATUSES},
                "percent": percent,
            }
        )
    unnoticed = [result for result in results if result["status"] not in _NOTICED]
    return {
        "packages": table,
        "unnoticed": sorted(unnoticed, key=lambda result: (result["status"], result["path"], result["line"])),
        "left_out": dict(left_out.most_common()),
        "results": results,
    }


def _show(document: dict[str, Any]) -> None:
    for result in document["unnoticed"]:
        asked = f"{result['tests']} of {result['of']} tests" if result["of"] else "no test runs it"
        _say(
            f"\n{result['status']}: {result['id']} {result['path']}:{result['line']} ({asked}) {result['by']}"
        )
        _say(result["diff"].rstrip())
    _say("\nnot made: " + "; ".join(f"{count} {reason}" for reason, count in document["left_out"].items()))
    names = ("package", "mutants", *STATUSES, "percent")
    width = max(len("package"), *(len(row["package"]) for row in document["packages"]))
    _say("\n" + "  ".join([names[0].ljust(width), *names[1:]]))
    for row in document["packages"]:
        cells = [str("-" if row[name] is None else row[name]).rjust(len(name)) for name in names[1:]]
        _say("  ".join([row["package"].ljust(width), *cells]))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--seed", type=int, default=random.SystemRandom().randrange(10**6), help="default: a random one"
    )
    parser.add_argument("--count", type=int, default=600, help="mutants to try (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="PATH", help="a file or folder of the sources")
    parser.add_argument("--test-folders", nargs="+", metavar="FOLDER", help="default: those of scope.yaml")
    parser.add_argument(
        "--tests", type=int, default=80, help="tests of a mutant at a time (default: %(default)s)"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=4,
        help="how often more tests are tried where none notices (default: %(default)s)",
    )
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds of these tests (default: %(default)s)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default: %(default)s)")
    parser.add_argument("--resume", action="store_true", help="take results of earlier runs on the same tree")
    parser.add_argument("--list", action="store_true", help="name the mutants and try none")
    parser.add_argument("--show", metavar="ID", help="print the patch of a mutant")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results there")
    parser.add_argument(
        "--root", type=Path, default=Path(__file__).resolve().parent.parent, help=argparse.SUPPRESS
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run the tool."""
    options = _options(arguments)
    project = Project(options.root, options.only)
    options.test_folders = options.test_folders or project.scope["tests"]
    if options.show:
        found = [project.diff(mutant) for mutant in project.mutants() if mutant.id == options.show]
        _say("".join(found).rstrip() or f"no mutant of this tree has the id {options.show}")
        return 0 if found else 1
    sample = project.sample(options.seed)
    chosen = [mutant for mutant, _ in zip(sample, range(options.count), strict=False)]
    _say(f"seed {options.seed}: {len(chosen)} mutants")
    if options.list:
        for mutant in chosen:
            _say(
                f"{mutant.id}  {mutant.path}:{mutant.line}  {mutant.kind}  {mutant.old!r} -> {mutant.new!r}"[
                    :200
                ]
            )
        return 0
    if not container(options.root):
        _say("unshare is not allowed here: mutants run in the process table and file system of everybody")
    try:
        document = report(run(project, chosen, options), project.left_out)
    except KeyboardInterrupt:
        _say("interrupted; to go on: the same command with --resume and this seed")
        return 130
    if not chosen:
        return 0
    if options.json:
        options.json.write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    _show(document)
    return 0


if __name__ == "__main__":
    sys.exit(main())
