"""Runs the suite group by group in subprocesses and collects the results.

A crash or a hang ends one process and is the result of the check that was running; the rest of its group
continues in a new process. Nothing here imports torch.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from xpubuild.engine.process import Cancel
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import InterruptedByUserError
from xpubuild.verify.baseline import Baseline
from xpubuild.verify.catalogue import asked_for, select
from xpubuild.verify.child import Child, ChildEnd, require_interpreter
from xpubuild.verify.model import CheckResult, VerifyReport
from xpubuild.verify.standin import SLOWER, not_proved
from xpubuild.verify.suite.registry import PACKAGES, Check, blocked_by, turns

LOG_NAME = "verify.log"
#: Waiting threads yield their core: with fewer cores than threads (a container's quota, a busy login node)
#: OpenMP's busy waiting takes several times as long as the computation. Only performance measurements use
#: OpenMP's default.
_CALM = {"OMP_WAIT_POLICY": "passive"}
_MEASURED = "speed"


def run_suite(
    python: Path,
    *,
    device: str,
    env: Mapping[str, str],
    work: Path,
    suite: str = "smoke",
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    require: Sequence[str] = (),
    emit: Callable[[CheckResult], None] = lambda _: None,
    started: Callable[[str], None] = lambda _: None,
    progress: Callable[[str, str], None] = lambda *_: None,
    deadline_s: float | None = None,
    options: Mapping[str, str] | None = None,
    baseline: Baseline | None = None,
    cancel: Cancel | None = None,
    stand_in: bool = False,
) -> VerifyReport:
    """Verify the torch of an interpreter on a device.

    Args:
        python: the target interpreter.
        device: ``xpu``, ``cuda`` or ``cpu``.
        env: the complete environment of the target (such as an activated workspace).
        work: folder for compile caches and ``verify.log``; made if missing.
        suite: one of ``registry.SUITES``.
        only: ids, groups or patterns of checks; the checks that they need run too.
        skip: ids, groups or patterns of checks that do not run.
        require: optional parts (``registry.PARTS``): their checks run too, and absence is a failure.
        emit: called with each result as soon as it is available.
        started: called with the id of each check that begins.
        progress: called with the id of a long check and how far it is.
        deadline_s: timeout for each check, instead of its own.
        options: options of single checks, those of ``check_database.py``; ``results`` is the folder of its
            table, by default below ``work``.
        baseline: speeds to compare with; a slower one is a warning.
        cancel: interrupts the run from another thread.
        stand_in: ``env`` is that of the stand-in for a GPU: what it cannot prove is skipped.

    Raises:
        UsageError: device, suite, part or a pattern is unknown.
        ToolchainError: the interpreter does not exist or cannot run the suite.
        InterruptedByUserError: ``cancel`` was set.
    """
    began = time.monotonic()
    checks = select(device=device, suite=suite, only=only, require=require, skip=skip)
    work.mkdir(parents=True, exist_ok=True)
    groups = dict.fromkeys(check.group for check in checks)
    require_interpreter(python, env, work, [name for group in groups for name in PACKAGES.get(group, ())])
    given = {**({"results": str(work / "operators")} if "database" in groups else {}), **(options or {})}
    with (work / LOG_NAME).open("wb") as log, _compile_scratch(work) as scratch:
        child_env = {**env, **_caches(scratch)}
        session = _Session(checks, emit, started, progress, baseline)
        slower = SLOWER if stand_in else 1
        deadlines = {check.id: deadline_s or slower * check.deadline_s for check in checks}
        for check in checks if stand_in else ():
            if reason := not_proved(check.id):
                session.add(check.id, status="skip", detail=reason)

        def lane(names: Sequence[str], output: IO[bytes]) -> None:
            for group in names:
                calm = {} if group == _MEASURED else _CALM
                child = Child(
                    python, device, require, {**calm, **child_env}, work, output, deadlines,
                    session.on_record, cancel=cancel, options=given,
                )  # fmt: skip
                _run_group(session, child, [check for check in checks if check.group == group], output)

        for lanes in turns(groups, device, len(os.sched_getaffinity(0))):
            _run_beside(lanes, lane, log, work)
    results, facts = tuple(session.results[check.id] for check in checks), session.facts
    return VerifyReport(
        suite, str(python), results, facts.get("torch", {}),
        {**facts.get("device", {"type": device}), **({"stand_in": True} if stand_in else {})},
        round(time.monotonic() - began, 3), _table(given, session.results),
        tuple(dict.fromkeys(asked_for(suite, only, require))),
    )  # fmt: skip


def _run_beside(
    lanes: Sequence[Sequence[str]], run: Callable[[Sequence[str], IO[bytes]], None], log: IO[bytes],
    work: Path,
) -> None:  # fmt: skip
    """Run groups of checks, several lanes of them at once; what each printed is put together in the log."""
    if len(lanes) == 1:
        return run(lanes[0], log)
    with contextlib.ExitStack() as stack:
        logs = [stack.enter_context((work / f"{lane[0]}.log").open("w+b")) for lane in lanes]
        pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(len(lanes)))
        running = [pool.submit(run, lane, one) for lane, one in zip(lanes, logs, strict=True)]
        concurrent.futures.wait(running)
        for one in logs:
            one.seek(0)
            shutil.copyfileobj(one, log)
        for ended in running:
            ended.result()
    return None


def _table(options: Mapping[str, str], results: Mapping[str, CheckResult]) -> dict[str, Any] | None:
    """Return the table of operators that a check of this run wrote; None without one."""
    if not any(check.group == "database" and "total" in check.metrics for check in results.values()):
        return None
    return dict(json.loads((Path(options["results"]) / "operators.json").read_text("utf-8")))


@contextlib.contextmanager
def _compile_scratch(work: Path) -> Iterator[Path]:
    """Yield a folder for compilers: inductor's command lines break at a space in it (torch 2.13)."""
    if not any(character.isspace() for character in str(work)):
        yield work
        return
    with scratch_folder("verify") as folder:
        yield folder


def _caches(scratch: Path) -> dict[str, str]:
    """Return the cache folders of compilers: never the user's own, which could hide a failure.

    Inductor puts its precompiled headers into the temporary folder, whatever its cache folder is.
    """
    temporary = scratch / "tmp"
    temporary.mkdir(exist_ok=True)
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(scratch / "inductor"),
        "TRITON_CACHE_DIR": str(scratch / "triton"),
        "TMPDIR": str(temporary),
    }


@dataclass
class _Session:
    """The results so far; lanes add to them from threads of their own."""

    checks: Sequence[Check]
    emit: Callable[[CheckResult], None]
    started: Callable[[str], None]
    progress: Callable[[str, str], None] = lambda *_: None
    baseline: Baseline | None = None
    results: dict[str, CheckResult] = field(default_factory=dict)
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_id = {check.id: check for check in self.checks}
        self._lock = threading.RLock()

    def on_record(self, record: dict[str, Any], output: tuple[str, ...]) -> None:
        """Process one record of a subprocess."""
        with self._lock:
            if record["event"] == "start":
                self.started(record["id"])
            elif record["event"] == "progress":
                self.progress(record["id"], str(record["detail"]))
            elif record["event"] == "facts":
                self.facts.update({name: value for name, value in record.items() if name != "event"})
            elif record["event"] == "result":
                fields = {name: record[name] for name in ("status", "duration_s", "detail", "metrics")}
                warnings = (*record.get("warnings", ()), *self._slower(record["id"], record["metrics"]))
                self.add(record["id"], output=output, warnings=warnings, **fields)

    def _slower(self, identifier: str, metrics: Mapping[str, Any]) -> tuple[str, ...]:
        device = self.facts.get("device", {}).get("name")
        return self.baseline.compare(identifier, metrics, device) if self.baseline else ()

    def add(self, identifier: str, **fields: Any) -> None:
        """Keep and announce the result of a check."""
        check = self._by_id[identifier]
        result = CheckResult(id=check.id, title=check.title, group=check.group, **fields)
        with self._lock:
            self.results[identifier] = result
            self.emit(result)

    def runnable(self, checks: Sequence[Check]) -> list[Check]:
        """Return the checks that are still to run, after skipping those that cannot."""
        pending = []
        for check in checks:
            if check.id in self.results:
                continue
            with self._lock:
                statuses = {identifier: result.status for identifier, result in self.results.items()}
            reason = blocked_by(check, statuses)
            if reason is None:
                pending.append(check)
            else:
                self.add(check.id, status="skip", detail=reason)
        return pending


def _run_group(session: _Session, child: Child, checks: Sequence[Check], log: IO[bytes]) -> None:
    """Run all checks of a group, in as many processes as needed; each settles at least one check."""
    while pending := session.runnable(checks):
        log.write(f"== {' '.join(check.id for check in pending)}\n".encode())
        end = child.run([check.id for check in pending])
        if child.cancel:
            raise InterruptedByUserError(
                "verify was interrupted", why=child.cancel.reason, fix="run the same command again",
                evidence={"finished": sorted(session.results)},
            )  # fmt: skip
        missing = [check.id for check in pending if check.id not in session.results]
        if missing:
            _blame(session, end.running or missing[0], end)


def _blame(session: _Session, identifier: str, end: ChildEnd) -> None:
    """Settle the check in which a process died; if it died before any check, the first one."""
    if end.timed_out:
        status, detail = "timeout", f"still running after {end.running_s:.0f} s"
    else:
        status, detail = "crash", end.how
    if end.running is None:
        detail += " (before the check began)"
    session.add(identifier, status=status, duration_s=end.running_s, detail=detail, output=end.output)
