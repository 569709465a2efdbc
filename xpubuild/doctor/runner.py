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
    waiting = {check.id: check for check in selection.checks}
    running: dict[str, tuple[Check, float]] = {}
    done: dict[str, Result] = {}
    answers: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def finish(result: Result) -> None:
        waiting.pop(result.id, None)
        done[result.id] = result
        if listener is not None and result.id in selection.shown:
            listener(result)

    while waiting or running:
        before = len(waiting)
        for check in list(waiting.values()):
            if settled := _settled(check, look, selection, done):
                finish(_result(check, settled))
            elif len(running) < at_once and all(name in done for name in check.needs):
                running[check.id] = waiting.pop(check.id), time.monotonic()
                threading.Thread(target=_work, args=(check, look, answers), daemon=True).start()
        stuck = not running and len(waiting) == before
        for result in _circles(waiting) if stuck else _ended(running, answers):
            finish(result)
    return tuple(done[check.id] for check in selection.checks)


def _circles(waiting: Mapping[str, Check]) -> list[Result]:
    """Return the errors of checks that need each other."""
    return [
        _result(check, Outcome("error", f"needs {', '.join(check.needs)}, which in turn needs this check"))
        for check in waiting.values()
    ]


def _ended(running: dict[str, tuple[Check, float]], answers: queue.SimpleQueue[Result]) -> list[Result]:
    """Wait for one result, or for the first timeout; return what ended, which then runs no more."""
    if not running:
        return []
    until = min(began + check.deadline_s for check, began in running.values())
    try:
        result = answers.get(timeout=max(0.0, until - time.monotonic()))
    except queue.Empty:
        now = time.monotonic()
        late = [(check, began) for check, began in running.values() if began + check.deadline_s <= now]
        for check, _ in late:
            del running[check.id]
        return [
            _result(check, Outcome("error", f"timed out after {check.deadline_s:g} s"), now - began)
            for check, began in late
        ]
    # A result after the timeout is dropped: the check has been reported already.
    return [result] if running.pop(result.id, None) is not None else []


def _settled(check: Check, look: Look, selection: Selection, done: Mapping[str, Result]) -> Outcome | None:
    """Return the answer of a check that is not run: it does not apply, or one that it needs did not pass."""
    if check.live and not look.live:
        return Outcome("skip", "needs the running machine; --root reads files only")
    if check.recipe and look.recipe is None:
        return Outcome("skip", "needs a recipe (--recipe)")
    for name in check.needs:
        if name in selection.left_out:
            return Outcome("skip", f"needs {name}, which was excluded", {"needs": name, BLOCKED_BY: name})
        if name not in {item.id for item in selection.checks}:
            return Outcome("error", f"needs {name}, which does not exist", {"needs": name})
        need = done.get(name)
        if need is not None and need.status not in ("ok", "warn"):
            cause = need.blocked_by or name
            began = done.get(cause)
            words = {"fail": "failed", "error": "could not complete", "skip": "was skipped"}
            why = words[began.status] if began is not None else "was excluded"
            why = f"{why}: {began.detail}" if began is not None and began.status == "skip" else why
            reason = why if cause == name else f"was skipped because {cause} {why}"
            return Outcome("skip", f"needs {name}, which {reason}", {"needs": name, BLOCKED_BY: cause})
    return None


def _work(check: Check, look: Look, answers: queue.SimpleQueue[Result]) -> None:
    began = time.monotonic()
    try:
        result = _result(check, check(look), time.monotonic() - began)
    except BaseException as error:  # noqa: BLE001 - the boundary: whatever a check raises is its result
        reason = f"{type(error).__name__}: {str(error).strip() or 'no message'}"
        result = _result(check, Outcome("error", reason), time.monotonic() - began)
    answers.put(result)


def _result(check: Check, outcome: object, seconds: float = 0.0) -> Result:
    """Return the result of a check; plug-ins are not type-checked."""
    if not isinstance(outcome, Outcome):
        raise TypeError(f"the check returned {type(outcome).__name__}, not an Outcome")
    if outcome.status not in STATUSES or not isinstance(outcome.fix, Fix | None):
        raise TypeError("the check returned an Outcome with an unknown status or a fix that is not a Fix")
    return Result(
        id=check.id,
        title=check.title,
        status=outcome.status,
        detail=str(outcome.detail),
        evidence=plain_json(dict(outcome.evidence)),
        fix=outcome.fix,
        docs=check.page,
        severity=check.severity,
        profiles=tuple(name for name in ("build", "run") if name in check.profiles),
        duration_s=round(seconds, 3),
    )


def plain_json(value: Any, redact: Callable[[str], str] = str) -> Any:
    """Return a value as plain JSON: checks put paths, tuples and sets into their evidence."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Mapping():
            return {redact(str(key)): plain_json(item, redact) for key, item in value.items()}
        case set() | frozenset():
            return sorted((plain_json(item, redact) for item in value), key=str)
        case list() | tuple():
            return [plain_json(item, redact) for item in value]
    return redact(str(value))
