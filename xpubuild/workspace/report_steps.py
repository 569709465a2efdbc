"""The steps of a report: those of the last plan, with what the journal knows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.engine.journal import StepRecord
from xpubuild.workspace.report_model import ReportCommand, ReportStep, StepStatus, WorkspaceStatus


def make_steps(
    plan: Mapping[str, Any], records: Sequence[StepRecord], commands: Sequence[ReportCommand], *, held: bool
) -> tuple[ReportStep, ...]:
    """Return the steps of the last plan in its order; all of the journal where there is no plan."""
    known = {record.step: record for record in records}
    planned = plan.get("steps") or [{"id": record.step} for record in records]
    return tuple(
        _step(step, known.get(step["id"]), [one for one in commands if one.step == step["id"]], held=held)
        for step in planned
    )


def _step(
    planned: Mapping[str, Any],
    record: StepRecord | None,
    commands: Sequence[ReportCommand],
    *,
    held: bool,
) -> ReportStep:
    name, title = planned["id"], str(planned.get("title", planned["id"]))
    if record is None:
        return ReportStep(name, title, "to do", None, None, "", 0, ())
    status: StepStatus = "done" if record.status == "done" else "failed"
    if record.status == "running":
        status = "running" if held else "interrupted"
    other = planned.get("fingerprint", record.fingerprint) != record.fingerprint
    detail = "; ".join(filter(None, (record.detail, "its inputs have changed since" if other else "")))
    return ReportStep(
        id=name,
        title=title,
        status=status,
        started=record.started,
        duration_s=record.ended - record.started if record.ended else None,
        detail=detail,
        peak_bytes=max((one.peak_bytes for one in commands if one.started >= record.started - 1), default=0),
        proved=tuple(record.evidence) if status == "done" else (),
    )


def status_of(steps: Sequence[ReportStep], *, held: bool) -> WorkspaceStatus:
    """Return how the workspace stands."""
    found = {step.status for step in steps}
    if held:
        return "running"
    for status in ("failed", "interrupted"):
        if status in found:
            return status
    return "complete" if found == {"done"} else "partial"
