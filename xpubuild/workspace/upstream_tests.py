"""``test``: runs upstream's tests in the interpreter of a workspace, and compares them with the accepted run.

Each file runs in a process of its own, on one tile of one GPU; a test that ends its process or hangs is the
result of that test, and the next process goes on behind it (``upstream_pytest``, which the target runs).
"""

from __future__ import annotations

import concurrent.futures
import csv
import json
import os
import shlex
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from typing_extensions import TypedDict

from xpubuild.engine.files import write_atomic
from xpubuild.engine.junit import Case, junit
from xpubuild.engine.process import Cancel, ProcessResult, query, run
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import UsageError, VerifyError
from xpubuild.untrusted import json_value, read_bytes
from xpubuild.workspace.upstream_selection import Unit

#: Not imported here: it needs pytest, which the target has.
_IN_TARGET = Path(__file__).with_name("upstream_pytest.py")
_MASKS = {"xpu": "ZE_AFFINITY_MASK", "cuda": "CUDA_VISIBLE_DEVICES"}
#: Upstream's CI gives a test ten minutes; a model is downloaded or compiled first.
_TEST_S, _MODEL_S = 600.0, 1800.0
#: How many tests of a file may end their process before the rest is given up.
_MOST_ENDS = 50
_BAD = ("failed", "crashed", "timed out")
_MOST_NAMED = 5
#: What a script of benchmarks/dynamo writes for a model that is right, or that cannot be judged.
_RIGHT = frozenset({"pass", "pass_due_to_skip"})
_PROBE = """\
import json, sys
import pytest, torch
api = getattr(torch, sys.argv[1])
count = 1 if sys.argv[1] == "cpu" else api.device_count()
name = api.get_device_name(0) if count and sys.argv[1] != "cpu" else sys.argv[1]
print(json.dumps({"torch": torch.__version__, "count": count, "device": name}))
"""
#: A line of a file of records: ``id``, and once the test has ended ``outcome``, ``seconds`` and ``detail``.
_Record = dict[str, Any]
#: Starts the interpreter with arguments; it ends once it records nothing for so many seconds.
_Start = Callable[[Sequence[str], float], ProcessResult]


class TestCase(TypedDict):
    """One of upstream's tests, or a model in one mode."""

    id: str
    """The file below the source tree, and what follows it in pytest's node id."""
    outcome: Literal["passed", "failed", "skipped", "crashed", "timed out"]
    seconds: float
    detail: str
    """The message of a failure, the reason of a skip."""


class TestAccepted(TypedDict):
    """The accepted run that this one is compared with."""

    when: float
    """When it ended, in seconds since the epoch."""
    torch: str
    device: str
    bad: list[str]
    """Tests that are known to fail; those of earlier accepted runs too, if they did not run in this one."""


class TestDocument(TypedDict):
    """What upstream's tests found."""

    schema: Literal["xpubuild.test/1"]
    """Name and version."""
    status: Literal["pass", "fail"]
    """`fail`: there are new failures, or nothing has run."""
    source: str
    python: str
    torch: str
    device: str
    """Name of the device."""
    lanes: int
    """How many devices, or tiles of one, tests ran on side by side."""
    when: float
    duration_s: float
    summary: dict[str, int]
    """How many tests ended in each outcome."""
    new: list[str]
    """Tests that are bad and were not in the accepted run."""
    known: list[str]
    """Tests that are bad and were in the accepted run."""
    fixed: list[str]
    """Tests that passed and were bad in the accepted run."""
    accepted: TestAccepted | None
    logs: str
    """Folder with the output of pytest, a file for each file of tests."""
    cases: list[TestCase]


class _Silence(Cancel):
    """Stops a process whose file of records has not grown for too long, or which the user stops."""

    def __init__(self, above: Cancel, records: Path, limit_s: float) -> None:
        super().__init__(above)
        self._records, self._limit_s = records, limit_s

    def __bool__(self) -> bool:
        return super().__bool__() or time.time() - self._records.stat().st_mtime > self._limit_s


@dataclass
class UpstreamTests:
    """One run. ``place`` is the folder of the last and the accepted run; ``words`` are options of pytest."""

    python: Path
    device: str
    env: Mapping[str, str]
    source: Path
    place: Path
    cancel: Cancel
    tell: Callable[[str], None]
    expression: str
    words: Sequence[str]

    def run(self, units: Sequence[Unit]) -> TestDocument:
        """Run them and return the document, which is kept as the last run.

        Raises:
            VerifyError: nothing can run: no torch, no device, no pytest.
            InterruptedByUserError: it was asked to stop.
        """
        began, about = time.time(), self._probe()
        given = self.env.get(_MASKS.get(self.device, ""), "")
        masks = [mask for mask in given.split(",") if mask] or list(map(str, range(about["count"])))
        before: Any = _read(self.place / "accepted.json")
        known_bad = set(before.get("bad", ()))
        # Tests of several devices have all of them, after the others.
        alone = [unit for unit in units if "/distributed/" in f"/{unit.name}"]
        # A file may take hours, so each is run in as many parts as there are devices.
        parts = [(unit, 1 if unit.model else len(masks)) for unit in units if unit not in alone]
        # One iterator for all lanes: each takes the next part that none has taken.
        work = iter([(unit, (first, count)) for unit, count in parts for first in range(count)])

        def lane(mask: str) -> list[TestCase]:
            found = (self._run_unit(unit, part, mask, len(masks), scratch) for unit, part in work)
            return [case for cases in found for case in cases]

        with scratch_folder("test") as scratch:
            with concurrent.futures.ThreadPoolExecutor(len(masks)) as pool:
                found = list(pool.map(lane, masks))
            found += [self._run_unit(unit, (0, 1), "", 1, scratch) for unit in alone]
        cases = {case["id"]: case for lane_cases in found for case in lane_cases}
        bad = [name for name, case in cases.items() if case["outcome"] in _BAD]
        counts = Counter(str(case["outcome"]) for case in cases.values())
        new = [name for name in bad if name not in known_bad]
        document: TestDocument = {
            "schema": "xpubuild.test/1",
            "status": "fail" if new or not counts.total() - counts["skipped"] else "pass",
            "source": str(self.source), "python": str(self.python), "torch": about["torch"],
            "device": about["device"], "lanes": len(masks), "when": time.time(),
            "duration_s": round(time.time() - began, 3), "summary": dict(counts), "new": new,
            "known": [name for name in bad if name in known_bad],
            "fixed": [name for name in cases if name in known_bad and cases[name]["outcome"] == "passed"],
            "accepted": before or None, "logs": str(self.place / "logs"), "cases": [*cases.values()],
        }  # fmt: skip
        write_atomic(self.place / "last.json", json.dumps(document).encode())
        return document

    def _probe(self) -> Any:
        argv = [str(self.python), "-c", _PROBE, self.device]
        found = query(argv, env=self.env, cwd=Path("/"), deadline_s=_TEST_S, cancel=self.cancel)
        self.cancel.stop_here()
        lines = found.stdout.splitlines()
        if not found.ok or not lines:
            printed = (found.stderr.strip().splitlines() or [f"it exited with code {found.returncode}"])[-1]
            add = [str(self.python), "-m", "pip", "install", "pytest", "expecttest", "hypothesis"]
            command = shlex.join(add) if "pytest" in printed else "xpubuild verify"
            raise _nothing(f"torch and pytest cannot be imported by {self.python}: {printed}", command)
        about = json.loads(lines[-1])
        if not about["count"]:
            raise _nothing(f"torch finds no {self.device} device", "xpubuild doctor --profile run")
        return about

    def _run_unit(
        self, unit: Unit, part: tuple[int, int], mask: str, lanes: int, scratch: Path
    ) -> list[TestCase]:
        """Run a part of a unit on one device; ``lanes`` is how many run side by side."""
        self.cancel.stop_here()
        began = time.monotonic()
        words = (unit.name, unit.nodes, unit.model, unit.mode, *part)
        name = "-".join(filter(None, map(str, words))).replace("/", ".").replace(":", ".")[:200]
        records, log = scratch / f"{name}.jsonl", self.place / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        log.unlink(missing_ok=True)
        env = {
            **self.env,
            # Nothing is written into the sources, and nothing is taken from the compiler caches of a build.
            "PYTHONDONTWRITEBYTECODE": "1",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(scratch / "hypothesis"),
            "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"), "TRITON_CACHE_DIR": str(scratch / "triton"),
            **({_MASKS[self.device]: mask} if mask and self.device in _MASKS else {}),
            **({"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // lanes))} if lanes > 1 else {}),
            **unit.env,
        }  # fmt: skip

        def start(argv: Sequence[str], limit_s: float) -> ProcessResult:
            records.touch()
            cancel = _Silence(self.cancel, records, limit_s)
            with log.open("ab") as stream:
                return run([str(self.python), *argv], env=env, cwd=unit.cwd, log=stream, cancel=cancel)

        found = self._model(unit, records, start) if unit.model else self._tests(unit, part, records, start)
        self.cancel.stop_here()
        counts = Counter(str(record["outcome"]) for record in found)
        printed = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        self.tell(f"{unit.name}: {printed or 'no tests'} ({time.monotonic() - began:.0f} s)")
        for record in found:
            record["id"] = "::".join(filter(None, (unit.name, record["id"])))
        cases: list[Any] = found
        return cases

    def _tests(self, unit: Unit, part: tuple[int, int], records: Path, start: _Start) -> list[_Record]:
        """Run a file of tests, again behind each test that ended its process."""
        asked, cache = records.with_suffix(".json"), records.with_name("cache")
        asked.write_text(json.dumps({"records": str(records), "part": part,
                                     "without": unit.without, "only": unit.only}), "utf-8")  # fmt: skip
        argv = [str(_IN_TARGET), str(asked), "-q", "-o", f"cache_dir={cache}", *self.words]
        argv.append(f"{unit.path}{unit.nodes}")
        if "PYTHONPATH" in unit.env:
            argv.append(f"--rootdir={unit.env['PYTHONPATH']}")
        argv += ["-k", self.expression] if self.expression else []
        for _ in range(_MOST_ENDS):
            result = start(argv, _TEST_S)
            written = [json.loads(line) for line in records.read_text("utf-8").splitlines()]
            found = [record for record in written if "outcome" in record]
            ended = {record["id"] for record in found}
            running = [record["id"] for record in written if record["id"] not in ended]
            if not running or self.cancel:
                break
            outcome, how = "crashed", f"the process {result.describe()}"
            if result.cancelled:
                outcome, how = "timed out", f"after {_TEST_S:.0f} s"
            found.append({"id": running[-1], "outcome": outcome, "seconds": 0.0, "detail": how})
            with records.open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(found[-1]) + "\n")
        # 5: none was collected or left.
        if result.returncode not in (0, 5) and not any(record["outcome"] in _BAD for record in found):
            last = next((line for line in reversed(result.tail) if line.strip()), "")
            how = f"pytest {result.describe()}: {last.strip()}"
            found.append({"id": "", "outcome": "crashed", "seconds": 0.0, "detail": how})
        return found

    def _model(self, unit: Unit, records: Path, start: _Start) -> list[_Record]:
        """Run a script of benchmarks/dynamo for one model, and read the word that it writes."""
        written = records.with_suffix(".csv")
        words = ["--accuracy", "--bfloat16", f"--{unit.mode}", "--inductor", "-d", self.device,
                 "--only", unit.model, "--output", str(written), *self.words]  # fmt: skip
        result = start([str(unit.path), *words], _MODEL_S)
        rows = list(csv.DictReader(written.read_text("utf-8").splitlines())) if written.is_file() else []
        printed = [row.get("accuracy", "") for row in rows if row.get("name") == unit.model][-1:]
        detail = printed[0] if printed else f"no result: the script {result.describe()}"
        outcome = "timed out" if result.cancelled else "crashed" if result.returncode < 0 else "failed"
        if result.ok and detail in _RIGHT:
            outcome = "passed"
        seconds = round(result.duration_s, 3)
        return [{"id": f"{unit.model}-{unit.mode}", "outcome": outcome, "seconds": seconds, "detail": detail}]


def _nothing(why: str, command: str) -> VerifyError:
    return VerifyError("no test has run", why=why, fix="correct that, then run the same command again",
                       commands=[command])  # fmt: skip


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        return dict(json_value(read_bytes(path, 1 << 30)))
    except (TypeError, ValueError) as error:
        fix = "remove it, run the tests again and accept them"
        raise UsageError(f"{path} is damaged", why=str(error), fix=fix) from error


def accept(place: Path) -> TestDocument:
    """Make the last run the accepted one, and return it; what did not run stays as it was accepted before.

    Raises:
        UsageError: there is no last run, or nothing ran in it.
    """
    last: Any = _read(place / "last.json")
    if not set(last.get("summary", ())) - {"skipped"}:
        raise UsageError("there is no run to accept", fix="run the tests first", commands=["xpubuild test"])
    ran = {case["id"] for case in last["cases"]}
    before = _read(place / "accepted.json").get("bad", ())
    kept = [name for name in before if name not in ran]
    known, of_run = [*last["new"], *last["known"]], {key: last[key] for key in ("when", "torch", "device")}
    accepted: Any = {**of_run, "bad": sorted((*kept, *known))}
    write_atomic(place / "accepted.json", json.dumps(accepted).encode())
    last |= {"accepted": accepted, "status": "pass", "new": [], "known": known}
    document: TestDocument = last
    return document


def failure(document: TestDocument, again: Sequence[str]) -> VerifyError | None:
    """Return the error of a run with new failures, or of one in which nothing ran; None for a good one."""
    if document["status"] == "pass":
        return None
    details = {case["id"]: case["detail"] for case in document["cases"]}
    new = document["new"]
    if not new:
        skipped = document["summary"].get("skipped", 0)
        why = f"all {skipped} tests were skipped: {next(iter(details.values()))}" if skipped else (
            "no test was collected or chosen")  # fmt: skip
        return VerifyError("no test has run", why=why, fix="choose other files, or another -k",
                           evidence={"logs": document["logs"]})  # fmt: skip
    named = "; ".join(f"{name}: {details[name]}" for name in new[:_MOST_NAMED])
    more = f"; and {len(new) - _MOST_NAMED} more" if len(new) > _MOST_NAMED else ""
    compared = "" if document["accepted"] else " (no run was accepted yet)"
    return VerifyError(
        f"{len(new)} of {len(document['cases'])} tests are new failures{compared}",
        why=named + more,
        fix="run the first one again; if these failures are known, accept the run",
        commands=(shlex.join([*again, new[0]]), shlex.join([*again, "--accept"])),
        evidence={"new": new, "logs": document["logs"]},
    )


def junit_report(document: TestDocument) -> bytes:
    """Return a run as JUnit XML, a test suite for each file."""
    cases = []
    for case in document["cases"]:
        file, _, name = case["id"].partition("::")
        status = {"failed": "fail", "skipped": "skip"}.get(case["outcome"], case["outcome"])
        bad = case["outcome"] in _BAD
        cases.append(Case(file, name or file, status, bad, case["detail"], case["seconds"], case["detail"]))
    about = {key: document[key] for key in ("torch", "device", "python", "source")}
    return junit("xpubuild test", cases, about, document["duration_s"])
