"""Runs checks in parallel, each with its own timeout; no failure of a check stops the run.

Each check has its own thread. A thread that does not return is abandoned: it is a daemon, and subprocesses
that it started end with this process (``engine.process``).
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.registry import Selection
from xpubuild.doctor.report import BLOCKED_BY, Result, blocked_by

_MOST_AT_ONCE = 16
_GOOD = ("ok", "warn")
_STATUSES = ("ok", "warn", "fail", "skip", "error")
Listener = Callable[[Result], None]


@dataclass
class _Job:
    check: type[Check]
    started: float = field(default_factory=time.monotonic)

    @property
    def ends(self) -> float:
        return self.started + self.check.deadline_s


def run_checks(
    context: CheckContext,
    selection: Selection,
    *,
    listener: Listener | None = None,
    at_once: int = _MOST_AT_ONCE,
) -> tuple[Result, ...]:
    """Run the selected checks and return their results, in the order of the selection.

    ``listener`` gets each shown result when its check ends. No exception of a check is raised: exceptions and
    timeouts are results with status ``error``.
    """
    return _Run(context, selection, listener, at_once).results()


class _Run:
    def __init__(
        self, context: CheckContext, selection: Selection, listener: Listener | None, at_once: int
    ) -> None:
        self._context = context
        self._selection = selection
        self._listener = listener
        self._at_once = at_once
        self._waiting = {check.id: check for check in selection.checks}
        self._running: dict[str, _Job] = {}
        self._done: dict[str, Result] = {}
        self._answers: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def results(self) -> tuple[Result, ...]:
        while self._waiting or self._running:
            started = self._start()
            if self._running:
                self._collect()
            elif not started:
                self._unravel()
        return tuple(self._done[check.id] for check in self._selection.checks)

    def _start(self) -> bool:
        """Start checks that can run and settle those that need not; return whether there was any."""
        moved = False
        for check in list(self._waiting.values()):
            settled = _unasked(check, self._context) or self._blocked(check)
            if settled is not None:
                self._finish(Result.of(check, settled))
                moved = True
            elif len(self._running) < self._at_once and all(name in self._done for name in check.needs):
                self._launch(check)
                moved = True
        return moved

    def _launch(self, check: type[Check]) -> None:
        del self._waiting[check.id]
        self._running[check.id] = _Job(check)
        threading.Thread(
            target=_work, args=(check, self._context, self._answers), name=f"check {check.id}", daemon=True
        ).start()

    def _collect(self) -> None:
        """Wait for one result, or for the first timeout."""
        first = min(job.ends for job in self._running.values())
        try:
            result = self._answers.get(timeout=max(0.0, first - time.monotonic()))
        except queue.Empty:
            self._give_up()
            return
        # A result after the timeout is dropped: the check has been reported already.
        if result.id in self._running:
            del self._running[result.id]
            self._finish(result)

    def _give_up(self) -> None:
        now = time.monotonic()
        for name, job in list(self._running.items()):
            if job.ends <= now:
                del self._running[name]
                late = Outcome("error", f"timed out after {job.check.deadline_s:g} s")
                self._finish(Result.of(job.check, late, now - job.started))

    def _blocked(self, check: type[Check]) -> Outcome | None:
        for name in check.needs:
            if name in self._selection.left_out:
                return Outcome("skip", f"needs {name}, which was excluded", _because(name, name))
            if name not in self._done and name not in self._waiting and name not in self._running:
                return Outcome("error", f"needs {name}, which does not exist", {"needs": name})
            result = self._done.get(name)
            if result is not None and result.status not in _GOOD:
                return self._for_want_of(result)
        return None

    def _for_want_of(self, need: Result) -> Outcome:
        """Return the skip of a check whose need did not pass; the detail shows the original cause."""
        cause = blocked_by(need) or need.id
        began = self._done.get(cause)
        if cause == need.id:
            told = _ended(need)
        elif began is None:
            told = f"was skipped because {cause} was excluded"
        else:
            told = f"was skipped because {cause} {_ended(began)}"
        return Outcome("skip", f"needs {need.id}, which {told}", _because(need.id, cause))

    def _unravel(self) -> None:
        """Settle checks that need each other."""
        for check in list(self._waiting.values()):
            names = ", ".join(name for name in check.needs if name in self._waiting)
            circle = Outcome("error", f"needs {names}, which in turn needs this check")
            self._finish(Result.of(check, circle))

    def _finish(self, result: Result) -> None:
        self._waiting.pop(result.id, None)
        self._done[result.id] = result
        if self._listener is not None and result.id in self._selection.shown:
            self._listener(result)


def _because(needed: str, cause: str) -> dict[str, str]:
    return {"needs": needed, BLOCKED_BY: cause}


def _ended(result: Result) -> str:
    if result.status == "skip":
        return f"was skipped: {result.detail}"
    return "failed" if result.status == "fail" else "could not complete"


def _unasked(check: type[Check], context: CheckContext) -> Outcome | None:
    if check.live and not context.live:
        return Outcome("skip", "needs the running machine; --root reads files only")
    if check.recipe and context.recipe is None:
        return Outcome("skip", "needs a recipe (--recipe)")
    return None


def _work(check: type[Check], context: CheckContext, answers: queue.SimpleQueue[Result]) -> None:
    began = time.monotonic()
    try:
        result = Result.of(check, _valid(check().run(context)), time.monotonic() - began)
    except BaseException as error:  # noqa: BLE001 - the boundary: whatever a check raises is its result
        result = Result.of(check, Outcome("error", _described(error)), time.monotonic() - began)
    answers.put(result)


def _described(error: BaseException) -> str:
    """Return type and message of an exception, without a traceback."""
    return f"{type(error).__name__}: {str(error).strip() or 'no message'}"


def _valid(outcome: object) -> Outcome:
    """Return the outcome of a check if it is valid; plug-ins are not type-checked."""
    if not isinstance(outcome, Outcome):
        raise TypeError(f"the check returned {type(outcome).__name__}, not an Outcome")
    if outcome.status not in _STATUSES:
        raise ValueError(f"the check returned the unknown status {outcome.status!r}")
    if not isinstance(outcome.evidence, Mapping):
        raise TypeError("the evidence of the check is not a mapping")
    if not isinstance(outcome.fix, Fix | None):
        raise TypeError(f"the check returned {type(outcome.fix).__name__}, not a Fix")
    return outcome
