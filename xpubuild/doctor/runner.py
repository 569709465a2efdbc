"""Runs checks in parallel, each with its own timeout; no failure of a check stops the run.

Each check has its own thread. A thread that does not return is abandoned: it is a daemon, and subprocesses
that it started end with this process (``engine.process``).
"""

from __future__ import annotations

import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

from xpubuild.doctor.kit import Check, Fix, Look, Outcome, Profile
from xpubuild.doctor.registry import Selection
from xpubuild.frozen import frozen

Status = Literal["ok", "warn", "fail", "skip", "error"]
STATUSES: tuple[Status, ...] = ("fail", "error", "warn", "ok", "skip")
#: Key in the evidence of a skipped check: the check whose failure is the original cause.
BLOCKED_BY = "blocked_by"
_MOST_AT_ONCE = 16


@frozen
class Result:
    """One check and its result, as documents show it; ``evidence`` holds plain JSON values only."""

    id: str
    title: str
    """What holds where the check is ok."""
    status: Status
    """`skip`: the question does not arise or cannot be answered here; `error`: the check itself failed."""
    detail: str
    """What was found, in a sentence or two."""
    evidence: Mapping[str, Any]
    """What the finding rests on; its keys depend on the check."""
    fix: Fix | None
    docs: str | None
    """Page about the check; null for a plug-in that names none."""
    severity: Literal["warn", "fail"]
    """The status that a finding of this check has by default."""
    profiles: tuple[Profile, ...]
    duration_s: float

    @property
    def bad(self) -> bool:
        """Whether this result makes the exit code 10."""
        return self.status in ("fail", "error")

    @property
    def blocked_by(self) -> str | None:
        """The id of the check that is the original cause of a skip, or None."""
        return self.evidence.get(BLOCKED_BY) if self.status == "skip" else None

    def clean(self, redact: Callable[[str], str]) -> Result:
        """Return the result with every text passed through ``redact``."""
        fix = self.fix and Fix(redact(self.fix.summary), tuple(map(redact, self.fix.commands)))
        return replace(self, detail=redact(self.detail), evidence=plain_json(self.evidence, redact), fix=fix)


def run_checks(
    look: Look,
    selection: Selection,
    *,
    listener: Callable[[Result], None] | None = None,
    at_once: int = _MOST_AT_ONCE,
) -> tuple[Result, ...]:
    """Run the selected checks and return their results, in the order of the selection.

    ``listener`` gets each shown result when its check ends. No exception of a check is raised: exceptions and
    timeouts are results with status ``error``.
    """
    return _Run(look, selection, listener, at_once).results()


class _Run:
    def __init__(
        self, look: Look, selection: Selection, listener: Callable[[Result], None] | None, at_once: int
    ) -> None:
        self._look, self._selection, self._listener, self._at_once = look, selection, listener, at_once
        self._waiting = {check.id: check for check in selection.checks}
        self._running: dict[str, tuple[Check, float]] = {}
        self._done: dict[str, Result] = {}
        self._answers: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def results(self) -> tuple[Result, ...]:
        while self._waiting or self._running:
            started = self._start()
            if self._running:
                self._collect()
            elif not started:
                for check in list(self._waiting.values()):
                    names = ", ".join(name for name in check.needs if name in self._waiting)
                    circle = Outcome("error", f"needs {names}, which in turn needs this check")
                    self._finish(_result(check, circle))
        return tuple(self._done[check.id] for check in self._selection.checks)

    def _start(self) -> bool:
        """Start checks that can run and settle those that need not; return whether there was any."""
        before = len(self._waiting)
        for check in list(self._waiting.values()):
            settled = _inapplicable(check, self._look) or _blocked(check, self._selection, self._done)
            if settled is not None:
                self._finish(_result(check, settled))
            elif len(self._running) < self._at_once and all(name in self._done for name in check.needs):
                self._running[check.id] = self._waiting.pop(check.id), time.monotonic()
                arguments = (check, self._look, self._answers)
                threading.Thread(target=_work, args=arguments, name=f"check {check.id}", daemon=True).start()
        return len(self._waiting) < before

    def _collect(self) -> None:
        """Wait for one result, or for the first timeout."""
        until = min(began + check.deadline_s for check, began in self._running.values())
        try:
            result = self._answers.get(timeout=max(0.0, until - time.monotonic()))
        except queue.Empty:
            now = time.monotonic()
            for check, began in list(self._running.values()):
                if began + check.deadline_s <= now:
                    del self._running[check.id]
                    late = Outcome("error", f"timed out after {check.deadline_s:g} s")
                    self._finish(_result(check, late, now - began))
        else:
            # A result after the timeout is dropped: the check has been reported already.
            if self._running.pop(result.id, None) is not None:
                self._finish(result)

    def _finish(self, result: Result) -> None:
        self._waiting.pop(result.id, None)
        self._done[result.id] = result
        if self._listener is not None and result.id in self._selection.shown:
            self._listener(result)


def _inapplicable(check: Check, look: Look) -> Outcome | None:
    if check.live and not look.live:
        return Outcome("skip", "needs the running machine; --root reads files only")
    if check.recipe and look.recipe is None:
        return Outcome("skip", "needs a recipe (--recipe)")
    return None


def _blocked(check: Check, selection: Selection, done: Mapping[str, Result]) -> Outcome | None:
    """Return the skip of a check whose need did not pass; the detail shows the original cause."""
    for name in check.needs:
        if name in selection.left_out:
            return Outcome("skip", f"needs {name}, which was excluded", {"needs": name, BLOCKED_BY: name})
        if name not in {item.id for item in selection.checks}:
            return Outcome("error", f"needs {name}, which does not exist", {"needs": name})
        need = done.get(name)
        if need is not None and need.status not in ("ok", "warn"):
            cause = need.blocked_by or name
            began = done.get(cause)
            why = _ended(began) if began is not None else "was excluded"
            told = why if cause == name else f"was skipped because {cause} {why}"
            return Outcome("skip", f"needs {name}, which {told}", {"needs": name, BLOCKED_BY: cause})
    return None


def _ended(result: Result) -> str:
    if result.status == "skip":
        return f"was skipped: {result.detail}"
    return "failed" if result.status == "fail" else "could not complete"


def _work(check: Check, look: Look, answers: queue.SimpleQueue[Result]) -> None:
    began = time.monotonic()
    try:
        result = _result(check, check(look), time.monotonic() - began)
    except BaseException as error:  # noqa: BLE001 - the boundary: whatever a check raises is its result
        told = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        result = _result(check, Outcome("error", told), time.monotonic() - began)
    answers.put(result)


def _result(check: Check, outcome: object, seconds: float = 0.0) -> Result:
    """Return the result of a check; plug-ins are not type-checked."""
    if not isinstance(outcome, Outcome):
        raise TypeError(f"the check returned {type(outcome).__name__}, not an Outcome")
    if outcome.status not in STATUSES:
        raise ValueError(f"the check returned the unknown status {outcome.status!r}")
    if not isinstance(outcome.evidence, Mapping):
        raise TypeError("the evidence of the check is not a mapping")
    if not isinstance(outcome.fix, Fix | None):
        raise TypeError(f"the check returned {type(outcome.fix).__name__}, not a Fix")
    return Result(
        id=check.id,
        title=check.title,
        status=outcome.status,
        detail=str(outcome.detail),
        evidence=plain_json(outcome.evidence),
        fix=outcome.fix,
        docs=check.page,
        severity=check.severity,
        profiles=tuple(name for name in ("build", "run") if name in check.profiles),
        duration_s=round(seconds, 3),
    )


def plain_json(value: Any, redact: Callable[[str], str] = str) -> Any:
    """Return a value as plain JSON: checks put paths, tuples and sets into their evidence."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {redact(str(key)): plain_json(item, redact) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((plain_json(item, redact) for item in value), key=str)
    if isinstance(value, (list, tuple)):
        return [plain_json(item, redact) for item in value]
    return redact(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value))
