"""What a run found: results, the status of the whole, and the counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from xpubuild.doctor.model import Check, Fix, Outcome, Profile, Status
from xpubuild.doctor.registry import Selection, docs_of, group_of

if TYPE_CHECKING:
    from xpubuild.doctor.context import Context

STATUSES: tuple[Status, ...] = ("fail", "error", "warn", "ok", "skip")
#: Key in the evidence of a skipped check: the check where it began that this one could not be asked.
BLOCKED_BY = "blocked_by"
_BAD = ("fail", "error")


@dataclass(frozen=True)
class Result:
    """How one check ended; ``evidence`` holds plain JSON values only."""

    id: str
    title: str
    status: Status
    detail: str
    evidence: Mapping[str, Any]
    fix: Fix | None
    docs: str | None
    duration_s: float
    profiles: tuple[Profile, ...]
    severity: Literal["warn", "fail"]

    @classmethod
    def of(cls, check: type[Check], outcome: Outcome, seconds: float = 0.0) -> Result:
        """Return the result of a check from what it answered."""
        return cls(
            id=check.id,
            title=check.title,
            status=outcome.status,
            detail=str(outcome.detail),
            evidence=plain_json(outcome.evidence),
            fix=outcome.fix,
            docs=docs_of(check),
            duration_s=round(seconds, 3),
            profiles=tuple(name for name in ("build", "run") if name in check.profiles),
            severity=check.severity,
        )

    @property
    def group(self) -> str:
        """The part of the id before the first dot."""
        return group_of(self.id)

    @property
    def bad(self) -> bool:
        """Whether this result makes the exit status 10."""
        return self.status in _BAD

    def to_json(self) -> dict[str, Any]:
        """Return the result as documents show it."""
        return {
            "id": self.id,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "evidence": self.evidence,
            "fix": self.fix.to_json() if self.fix else None,
            "docs": self.docs,
            "severity": self.severity,
            "profiles": list(self.profiles),
            "duration_s": self.duration_s,
        }

    def clean(self, redact: Callable[[str], str]) -> Result:
        """Return the result with every text passed through ``redact``."""
        fix = self.fix and Fix(redact(self.fix.summary), tuple(map(redact, self.fix.commands)))
        return replace(self, detail=redact(self.detail), evidence=plain_json(self.evidence, redact), fix=fix)


@dataclass(frozen=True)
class Report:
    """The results that are shown, and what the run was about."""

    context: Context
    results: tuple[Result, ...]
    profiles: tuple[Profile, ...]
    whole: bool

    @property
    def bad(self) -> tuple[Result, ...]:
        """What makes the exit status 10, failures before errors."""
        return tuple(
            sorted((item for item in self.results if item.bad), key=lambda item: item.status != "fail")
        )

    @property
    def status(self) -> Literal["ok", "warn", "fail"]:
        """The worst of all results."""
        if self.bad:
            return "fail"
        return "warn" if any(item.status == "warn" for item in self.results) else "ok"

    def counts(self) -> dict[Status, int]:
        """Return status -> how many ended so."""
        return {status: sum(item.status == status for item in self.results) for status in STATUSES}


def make_report(
    context: Context,
    selection: Selection,
    results: tuple[Result, ...],
    profiles: tuple[Profile, ...],
    redact: Callable[[str], str],
) -> Report:
    """Return the report of what was asked for, without secrets.

    Where a check that was asked for could not run because of one that merely came along, that one is shown
    too: else a failure would end with status 0 and without its cause.
    """
    by_id = {item.id: item for item in results}
    shown = set(selection.shown)
    for item in results:
        cause = by_id.get(blocked_by(item) or "") if item.id in selection.shown else None
        if cause is not None and cause.bad:
            shown.add(cause.id)
    chosen = tuple(item.clean(redact) for item in results if item.id in shown)
    return Report(context, chosen, profiles, selection.whole)


def blocked_by(result: Result) -> str | None:
    """Return the id of the check because of which, in the end, another one could not be asked."""
    name = result.evidence.get(BLOCKED_BY) if result.status == "skip" else None
    return name if isinstance(name, str) else None


def plain_json(value: Any, redact: Callable[[str], str] = str) -> Any:
    """Return a value as JSON knows it: checks put paths, tuples and sets into their evidence."""
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
