"""Runs a plan: independent steps in parallel, every result checked and recorded in the journal."""

from __future__ import annotations

import contextlib
import graphlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from xpubuild.engine.environment import base_environment
from xpubuild.engine.events import (
    Notice,
    RunFinished,
    RunStarted,
    Sink,
    StepFinished,
    StepStarted,
)
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.setting import ERROR_FILE, Setting, makes
from xpubuild.engine.state import StepState, settle
from xpubuild.errors import InterruptedByUserError, XpuBuildError

__all__ = ["ERROR_FILE", "Outcome", "cancel_on_signals", "needed_for", "notify", "run_plan"]

_POLL_S = 0.2


@dataclass
class Outcome:
    """What a run did: ids of the steps that ran and of those that were up to date."""

    ran: list[str] = field(default_factory=list)
    up_to_date: list[str] = field(default_factory=list)
    errors: list[XpuBuildError] = field(default_factory=list)


def needed_for(plan: Plan, until: str | None) -> tuple[Step, ...]:
    """Return the steps to run: all, or ``until`` and what it needs. An unknown id raises KeyError."""
    if until is None:
        return plan.steps
    wanted: set[str] = set()
    frontier = [until]
    while frontier:
        step = plan.step(frontier.pop())
        if step.id not in wanted:
            wanted.add(step.id)
            frontier.extend((*step.needs, *step.tools))
    return tuple(step for step in plan.steps if step.id in wanted)


def run_plan(
    plan: Plan,
    journal: Journal,
    *,
    sink: Sink,
    cancel: Cancel,
    lock_fd: int = -1,
    until: str | None = None,
    width: int = 4,
    states: Mapping[str, StepState] = MappingProxyType({}),
) -> Outcome:
    """Run the steps of a plan that are not done; never raises for a failed step, the outcome holds it.

    ``states`` is what the journal told of steps just before; it holds until a step has run.

    After a failure no new step starts, but running steps are finished: an hour of compiling is not lost
    because another step failed. A cancelled run stops everything. ``width`` is the number of steps that run
    in parallel.
    """
    setting = Setting(
        journal=journal,
        sink=sink,
        cancel=cancel,
        workspace=Path(plan.workspace),
        lock_fd=lock_fd,
        environment=base_environment(),
    )
    if journal.set_aside is not None:
        # What lies here was made under the journal that was damaged; it is ours all the same.
        for step in plan.steps:
            journal.add_made(step.id, makes(step))
    steps = needed_for(plan, until)
    started = time.monotonic()
    sink.emit(
        RunStarted(
            time=time.time(),
            recipe=plan.recipe,
            workspace=plan.workspace,
            steps=tuple((step.id, step.title) for step in steps),
            done=(),
        )
    )
    try:
        outcome = _drive(steps, plan.fingerprints, setting, width, states)
    except BaseException:
        with contextlib.suppress(XpuBuildError):
            journal.end_run("failed")
        raise
    status = "cancelled" if cancel else ("failed" if outcome.errors else "ok")
    try:
        journal.end_run(status)
    except XpuBuildError as error:
        outcome.errors.append(error)
        status = "failed"
    sink.emit(RunFinished(time=time.time(), status=status, duration_s=time.monotonic() - started))
    return outcome


def _drive(
    steps: Iterable[Step],
    prints: Mapping[str, str],
    setting: Setting,
    width: int,
    states: Mapping[str, StepState],
) -> Outcome:
    by_id = {step.id: step for step in steps}
    sorter = graphlib.TopologicalSorter(
        {step.id: {*step.needs, *step.tools, *step.after} & set(by_id) for step in by_id.values()}
    )
    sorter.prepare()
    outcome = Outcome()
    ready: deque[str] = deque()
    running: dict[Future[bool], str] = {}
    with ThreadPoolExecutor(max_workers=width, thread_name_prefix="step") as pool, _or_stop(setting.cancel):
        while sorter.is_active():
            ready.extend(sorter.get_ready())
            # No more than can run at once: what waits inside the pool would start even after a failure.
            while ready and len(running) < width and not outcome.errors and not setting.cancel:
                name = ready.popleft()
                known = None if outcome.ran else states.get(name)
                running[pool.submit(_settle_and_run, by_id[name], prints[name], setting, known)] = name
            if not running:
                break
            for future in wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED).done:
                name = running.pop(future)
                if _collect(future, name, outcome):
                    sorter.done(name)
    if setting.cancel and not outcome.errors:
        outcome.errors.append(InterruptedByUserError("interrupted"))
    return outcome


@contextlib.contextmanager
def _or_stop(cancel: Cancel) -> Iterator[None]:
    """On an exception that is no step's failure (a bug), end the other steps instead of waiting for them."""
    try:
        yield
    except BaseException:
        cancel.set("internal error")
        raise


def _collect(future: Future[bool], name: str, outcome: Outcome) -> bool:
    try:
        (outcome.ran if future.result() else outcome.up_to_date).append(name)
    except XpuBuildError as error:
        outcome.errors.append(error)
        return False
    return True


def _settle_and_run(step: Step, fingerprint: str, setting: Setting, known: StepState | None) -> bool:
    """Return whether the step had to run."""
    try:
        state = settle(step, fingerprint, setting.journal, known=known)
    except XpuBuildError as error:
        _finished(step, setting, "failed", detail=error.what)
        raise
    if state.done:
        _finished(step, setting, "up-to-date")
        return False
    from xpubuild.engine.execution import Execution  # noqa: PLC0415 - for steps that have to run

    log = setting.workspace / "logs" / f"{step.id}.log"
    setting.sink.emit(
        StepStarted(time=time.time(), step=step.id, title=step.title, log=str(log), reason=state.reason)
    )
    started = time.monotonic()
    execution = Execution(step, fingerprint, setting, log)
    try:
        execution.perform()
    except XpuBuildError as error:
        if error.log is None and log.exists():
            error.log = log
        status = "cancelled" if isinstance(error, InterruptedByUserError) else "failed"
        # In the journal a step that was interrupted stays one that began and did not end. The journal may be
        # what is broken (a full disk): the first error is the one that tells.
        with contextlib.suppress(XpuBuildError):
            if status == "failed":
                setting.journal.failed(step.id, error.what)
        duration_s = time.monotonic() - started
        _finished(step, setting, status, duration_s=duration_s, peak_bytes=execution.peak, detail=error.what)
        raise
    _finished(step, setting, "done", duration_s=time.monotonic() - started, peak_bytes=execution.peak)
    return True


def _finished(
    step: Step,
    setting: Setting,
    status: str,
    *,
    duration_s: float = 0.0,
    peak_bytes: int = 0,
    detail: str = "",
) -> None:
    setting.sink.emit(
        StepFinished(
            time=time.time(),
            step=step.id,
            title=step.title,
            status=status,
            duration_s=duration_s,
            peak_bytes=peak_bytes,
            detail=detail,
        )
    )


def notify(sink: Sink, text: str, *, level: str = "info") -> None:
    """Emit a notice."""
    sink.emit(Notice(time=time.time(), level=level, text=text))


@contextlib.contextmanager
def cancel_on_signals(cancel: Cancel) -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into a cancellation; a second one ends at once.

    Children live in sessions of their own and get nothing from the terminal; the ladder in ``process`` stops
    them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, _frame: object) -> None:
        if cancel:
            os._exit(130)
        cancel.set(signal.Signals(number).name)

    # `nohup` ignores SIGHUP so that a build survives the end of a login.
    nohup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    numbers = (signal.SIGINT, signal.SIGTERM, *(() if nohup else (signal.SIGHUP,)))
    earlier = [signal.signal(number, handler) for number in numbers]
    try:
        yield
    finally:
        for number, old in zip(numbers, earlier, strict=True):
            signal.signal(number, old)
