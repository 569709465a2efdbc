"""The result of a run: results of the checks, overall status, counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from xpubuild.doctor.context import Profile
from xpubuild.doctor.model import Check, Fix, Outcome, Status
from xpubuild.doctor.registry import Selection, docs_of, group_of
from xpubuild.frozen import frozen

if TYPE_CHECKING:
    from xpubuild.doctor.context import CheckContext

STATUSES: tuple[Status, ...] = ("fail", "error", "warn", "ok", "skip")
#: Key in the evidence of a skipped check: the check whose failure is the original cause.
BLOCKED_BY = "blocked_by"
_BAD = ("fail", "error")


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

    @classmethod
    def of(cls, check: type[Check], outcome: Outcome, seconds: float = 0.0) -> Result:
        """Return the result of a check from its outcome."""
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
        """Whether this result makes the exit code 10."""
        return self.status in _BAD

    def clean(self, redact: Callable[[str], str]) -> Result:
        """Return the result with every text passed through ``redact``."""
        fix = self.fix and Fix(redact(self.fix.summary), tuple(map(redact, self.fix.commands)))
        return replace(self, detail=redact(self.detail), evidence=plain_json(self.evidence, redact), fix=fix)


@frozen
class Report:
    """The results that are shown, and the context and profiles of the run."""

    context: CheckContext
    results: tuple[Result, ...]
    profiles: tuple[Profile, ...]
    whole: bool

    @property
    def bad(self) -> tuple[Result, ...]:
        """The results that make the exit code 10, failures before errors."""
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
        """Return status -> number of results."""
        return {status: sum(item.status == status for item in self.results) for status in STATUSES}


def make_report(
    context: CheckContext,
    selection: Selection,
    results: tuple[Result, ...],
    profiles: tuple[Profile, ...],
    redact: Callable[[str], str],
) -> Report:
    """Return the report of the selected checks, without secrets.

    If a selected check could not run because of one that was not selected, that one is shown too: otherwise
    the exit code would be 0 and the cause unknown.
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
    """Return the id of the check that is the original cause of a skip, or None."""
    name = result.evidence.get(BLOCKED_BY) if result.status == "skip" else None
    return name if isinstance(name, str) else None


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
