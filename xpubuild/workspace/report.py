"""Makes the ``xpubuild.report/1`` document of a workspace, finished or not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from xpubuild import __version__
from xpubuild.documents import plain
from xpubuild.engine.journal import Journal, RanCommand, StepRecord, ran_command
from xpubuild.engine.lock import held_by
from xpubuild.engine.redact import Redactor
from xpubuild.errors import XpuBuildError
from xpubuild.explain.document import Circumstances, explain_file
from xpubuild.frozen import frozen
from xpubuild.machine.system import os_facts, system_of
from xpubuild.supply.caching import rows
from xpubuild.untrusted import UntrustedError, json_value, read_bytes
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.ninja_log import ninja_builds

StepStatus = Literal["done", "failed", "running", "interrupted", "to do"]
WorkspaceStatus = Literal["complete", "failed", "running", "interrupted", "partial"]
#: Says why something is no document of a name, and "" where it is one.
Unfit = Callable[[str, Any], str]


@frozen
class ReportStep:
    """A step as it was last tried."""

    id: str
    title: str
    status: StepStatus
    started: float | None = None
    """Seconds since the epoch; null if it never began."""
    duration_s: float | None = None
    """Null if it never ended."""
    detail: str = ""
    """Why it failed, and what else there is to say."""
    peak_bytes: int = 0
    """Most memory that one of its commands had; 0 if none was measured."""
    proved: tuple[Mapping[str, Any], ...] = ()
    """Evidence: one object per proof, which `proof` names."""


@frozen
class ReportCommand(RanCommand):
    """One process that was run, in any attempt."""

    memory: tuple[tuple[float, int], ...]
    """(seconds after the start, bytes of the process tree); empty where it was not recorded."""


@frozen
class StepExplanation:
    """What ``explain`` finds in the log of a step that failed."""

    step: str
    log: str
    explanation: Mapping[str, Any]
    """An xpubuild.explain/1 document."""


def report_document(root: Path, unfit: Unfit) -> dict[str, Any]:
    """Return the document, without secrets; what cannot be read is named in it.

    ``unfit`` judges documents of the workspace, which may be somebody else's.

    Raises:
        ToolchainError: the journal cannot be read.
    """
    layout, now = Layout(root), time.time()
    held = bool(held_by(root))
    with Journal(layout.journal, read_only=True) as journal:
        runs, records = journal.runs(), journal.records()
        commands = [{**ran_command(row), "memory": row.get("memory", [])} for row in journal.commands()]
    missing = ["Memory is recorded per command, not per translation unit."]
    if not any(one["memory"] for one in commands):
        missing.append("No memory over time: nothing ran for long.")

    def found(path: Path, name: str) -> dict[str, Any]:
        try:
            document = json_value(read_bytes(path)) if path.is_file() else None
            if document is not None and (why := unfit(name, document)):
                raise UntrustedError(why)
        except (OSError, ValueError) as error:
            missing.append(f"{path.name} cannot be read: {error}")
            return {}
        return document or {}

    plan, receipt = found(layout.plan, "plan"), found(layout.receipt, "receipt")
    verify = found(layout.verify_report, "verify")
    place = layout.verify_operators / "operators.json"
    operators = verify.get("operators") or found(place, "verify-operators")
    steps = _steps(plan, records, commands, held=held)
    ran = [(one["step"], one["started"], one["started"] + one["duration_s"]) for one in commands]
    ran += [(one.id, one.started, now) for one in steps if one.started and one.status == "running"]
    document = {
        "schema": "xpubuild.report/1", "xpubuild": __version__, "created": now, "workspace": str(root),
        "recipe": str(plan.get("recipe") or (runs[-1]["recipe"] if runs else "")),
        "status": "running" if held else _status({step.status for step in steps}),
        "lock_digest": str(plan.get("lock_digest", "")), "summary": plan.get("summary", {}), "runs": runs,
        "steps": plain(steps), "commands": commands, "builds": plain(ninja_builds(layout, ran)),
        "compile_cache": rows(records, layout.build),
        "explanations": plain(_explanations(layout, steps, missing)), "host": receipt.get("host"),
        **{name: receipt.get(name, []) for name in ("oneapi", "wheels", "warnings")},
        "verify": verify or None, "operators": operators or None, "missing": missing,
    }  # fmt: skip
    return dict(Redactor.from_environment(os.environ).tree(document))


def _steps(
    plan: Mapping[str, Any], records: Sequence[StepRecord], ran: Sequence[Mapping[str, Any]], *, held: bool
) -> list[ReportStep]:
    """Return the steps of the last plan in its order; all of the journal where there is no plan."""
    known = {record.step: record for record in records}
    found = []
    for planned in plan.get("steps") or [{"id": record.step} for record in records]:
        name, title = planned["id"], str(planned.get("title", planned["id"]))
        if (record := known.get(name)) is None:
            found.append(ReportStep(name, title, "to do"))
            continue
        status: StepStatus = "done" if record.status == "done" else "failed"
        if record.status == "running":
            status = "running" if held else "interrupted"
        other = planned.get("fingerprint", record.fingerprint) != record.fingerprint
        own = [one for one in ran if one["step"] == name and one["started"] >= record.started - 1]
        duration = record.ended - record.started if record.ended else None
        detail = "; ".join(filter(None, (record.detail, other and "its inputs have changed since")))
        peak = max((one["peak_bytes"] for one in own), default=0)
        proved = tuple(record.evidence) if status == "done" else ()
        found.append(ReportStep(name, title, status, record.started, duration, detail, peak, proved))
    return found


def _status(found: set[StepStatus]) -> WorkspaceStatus:
    for status in ("failed", "interrupted"):
        if status in found:
            return status
    return "complete" if found == {"done"} else "partial"


def _explanations(layout: Layout, steps: Sequence[ReportStep], missing: list[str]) -> list[StepExplanation]:
    known = Circumstances(system=system_of(os_facts()))
    found = []
    for step in steps:
        log = layout.logs / f"{step.id}.log"
        if step.status == "failed" and log.parent == layout.logs and log.is_file():
            try:
                found.append(StepExplanation(step.id, str(log), explain_file(log, known).to_json()))
            except (XpuBuildError, OSError, ValueError) as error:
                missing.append(f"{log.name} cannot be read: {error}")
    return found
