"""Runs a plan: independent steps in parallel, every result checked and recorded in the journal."""

from __future__ import annotations

import contextlib
import graphlib
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from xpubuild.engine.events import RunFinished, RunStarted, Sink, StepFinished, StepStarted
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step, closure
from xpubuild.engine.process import Cancel
from xpubuild.engine.state import StepState, settle
from xpubuild.errors import InterruptedByUserError, XpuBuildError

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
    wanted = closure([until], lambda name: (*plan.step(name).needs, *plan.step(name).tools))
    return tuple(step for step in plan.steps if step.id in wanted)


def run_plan(
    plan: Plan, journal: Journal, *, sink: Sink, cancel: Cancel, lock_fd: int = -1, until: str | None = None,
    width: int = 4, states: Mapping[str, StepState] = MappingProxyType({}),
) -> Outcome:  # fmt: skip
    """Run the steps of a plan that are not done; never raises for a failed step, the outcome holds it.

    ``states`` is what the journal showed of steps just before; it holds until a step has run.

    After a failure no new step starts, but running steps are finished: an hour of compiling is not lost
    because another step failed. A cancelled run stops everything. ``width`` is the number of steps that run
    in parallel.
    """
    if journal.set_aside is not None:
        # What lies here was made under the journal that was damaged, but by xpubuild.
        for step in plan.steps:
            journal.add_made(step.id, step.makes())
    steps = needed_for(plan, until)
    started = time.monotonic()
    titles = tuple((step.id, step.title) for step in steps)
    sink.emit(RunStarted(time.time(), plan.recipe, plan.workspace, titles, ()))
    run = _Run(plan, journal, sink, cancel, lock_fd, states)
    try:
        outcome = run.drive(steps, width)
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
    sink.emit(RunFinished(time.time(), status, time.monotonic() - started))
    return outcome


@dataclass
class _Run:
    plan: Plan
    journal: Journal
    sink: Sink
    cancel: Cancel
    lock_fd: int
    states: Mapping[str, StepState]

    def drive(self, steps: Sequence[Step], width: int) -> Outcome:
        by_id = {step.id: step for step in steps}
        before = {step.id: {*step.needs, *step.tools, *step.after} & by_id.keys() for step in steps}
        sorter = graphlib.TopologicalSorter(before)
        sorter.prepare()
        outcome = Outcome()
        ready: deque[str] = deque()
        running: dict[Future[bool], str] = {}
        with ThreadPoolExecutor(width, thread_name_prefix="step") as pool, _or_stop(self.cancel):
            while sorter.is_active():
                ready.extend(sorter.get_ready())
                # No more than can run at once: what waits inside the pool would start even after a failure.
                while ready and len(running) < width and not outcome.errors and not self.cancel:
                    name = ready.popleft()
                    known = None if outcome.ran else self.states.get(name)
                    running[pool.submit(self.settle_and_run, by_id[name], known)] = name
                if not running:
                    break
                for future in wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED).done:
                    name = running.pop(future)
                    try:
                        (outcome.ran if future.result() else outcome.up_to_date).append(name)
                    except XpuBuildError as error:
                        outcome.errors.append(error)
                    else:
                        sorter.done(name)
        if self.cancel and not outcome.errors:
            outcome.errors.append(InterruptedByUserError("interrupted"))
        return outcome

    def settle_and_run(self, step: Step, known: StepState | None) -> bool:
        """Return whether the step had to run."""
        fingerprint = self.plan.fingerprints[step.id]
        try:
            state = settle(step, fingerprint, self.journal, known=known)
        except XpuBuildError as error:
            self.finished(step, "failed", detail=error.what)
            raise
        if state.done:
            self.finished(step, "up-to-date")
            return False
        from xpubuild.engine.execution import Execution  # noqa: PLC0415 - for steps that have to run

        workspace = Path(self.plan.workspace)
        log = workspace / "logs" / f"{step.id}.log"
        self.sink.emit(StepStarted(time.time(), step.id, step.title, str(log), state.reason))
        started = time.monotonic()
        execution = Execution(step, log, self.journal, self.sink, self.cancel, workspace, self.lock_fd)
        try:
            execution.perform(fingerprint)
        except XpuBuildError as error:
            if error.log is None and log.exists():
                error.log = log
            status = "cancelled" if isinstance(error, InterruptedByUserError) else "failed"
            # In the journal a step that was interrupted stays one that began and did not end. The journal may
            # be what is broken (a full disk): the first error is the one to report.
            with contextlib.suppress(XpuBuildError):
                if status == "failed":
                    self.journal.failed(step.id, error.what)
            self.finished(step, status, time.monotonic() - started, execution.peak, error.what)
            raise
        self.finished(step, "done", time.monotonic() - started, execution.peak)
        return True

    def finished(
        self, step: Step, status: str, duration_s: float = 0.0, peak_bytes: int = 0, detail: str = ""
    ) -> None:
        event = StepFinished(time.time(), step.id, step.title, status, duration_s, peak_bytes, detail)
        self.sink.emit(event)


@contextlib.contextmanager
def _or_stop(cancel: Cancel) -> Iterator[None]:
    """On an exception that is no step's failure (a bug), end the other steps instead of waiting for them."""
    try:
        yield
    except BaseException:
        cancel.set("internal error")
        raise


@contextlib.contextmanager
def cancel_on_signals(cancel: Cancel) -> Iterator[None]:
    """Turn the first SIGINT, SIGTERM or SIGHUP into a cancellation; a second one ends at once.

    Children live in sessions of their own and get nothing from the terminal; ``process`` stops them.
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
