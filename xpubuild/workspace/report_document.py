"""Makes the ``xpubuild.report/1`` document of a workspace, finished or not."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from xpubuild import __version__
from xpubuild.documents import plain
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import held_by
from xpubuild.engine.redact import Redactor
from xpubuild.errors import XpuBuildError
from xpubuild.explain.document import Circumstances, explain_file
from xpubuild.machine.packages import system_of
from xpubuild.machine.system import os_facts
from xpubuild.supply.caching import rows
from xpubuild.untrusted import UntrustedError, json_value, read_bytes
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.report_builds import ninja_builds
from xpubuild.workspace.report_model import ReportCommand, ReportStep, StepExplanation
from xpubuild.workspace.report_steps import make_steps, status_of

SCHEMA = "xpubuild.report/1"
#: What no part of xpubuild records yet.
NOT_RECORDED = ("Memory is recorded per command, not per translation unit.",)
T = TypeVar("T")
Unfit = Callable[[str, Any], str]


def report_document(root: Path, unfit: Unfit) -> dict[str, Any]:
    """Return the document, without secrets; what cannot be read is named in it.

    ``unfit`` says why something is no document of a name, and "" where it is one: workspaces may be those of
    somebody else.

    Raises:
        ToolchainError: the journal cannot be read.
    """
    layout, owner, now = Layout(root), held_by(root), time.time()
    missing = list(NOT_RECORDED)
    with Journal(layout.journal, read_only=True) as journal:
        runs, records, memory = journal.runs(), journal.records(), journal.memory()
        commands = tuple(_command(item, memory.get(item["id"], ())) for item in journal.commands())
    if not memory:
        missing.append("No memory over time: nothing ran for long, or an earlier xpubuild ran it.")
    plan = _file(layout.plan, "plan", unfit, missing)
    steps = make_steps(plan, records, commands, held=bool(owner))
    ran = [(one.step, one.started, one.started + one.duration_s) for one in commands]
    ran += [(one.id, one.started, now) for one in steps if one.started and one.status == "running"]
    document = {
        "schema": SCHEMA,
        "xpubuild": __version__,
        "created": now,
        "workspace": str(root),
        "recipe": str(plan.get("recipe") or (runs[-1]["recipe"] if runs else "")),
        "status": status_of(steps, held=bool(owner)),
        "lock_digest": str(plan.get("lock_digest", "")),
        "summary": plan.get("summary", {}),
        "runs": runs,
        "steps": plain(steps),
        "commands": plain(commands),
        "builds": plain(ninja_builds(layout, ran)),
        "compile_cache": rows(records, layout.build),
        "explanations": plain(_explanations(layout, steps, missing)),
        **_of_receipt(layout, unfit, missing),
        **_of_verify(layout, unfit, missing),
        "missing": missing,
    }
    return dict(Redactor.from_environment(os.environ).tree(document))


def _of_receipt(layout: Layout, unfit: Unfit, missing: list[str]) -> dict[str, Any]:
    receipt = _file(layout.receipt, "receipt", unfit, missing)
    lists = {name: receipt.get(name, []) for name in ("oneapi", "wheels", "warnings")}
    return {"host": receipt.get("host"), **lists}


def _of_verify(layout: Layout, unfit: Unfit, missing: list[str]) -> dict[str, Any]:
    verify = _file(layout.verify_report, "verify", unfit, missing)
    table = layout.verify_operators / "operators.json"
    operators = verify.get("operators") or _file(table, "verify-operators", unfit, missing)
    return {"verify": verify or None, "operators": operators or None}


def _file(path: Path, name: str, unfit: Unfit, missing: list[str]) -> dict[str, Any]:
    return _tried(lambda: _object(path, name, unfit), {}, path.name, missing)


def _tried(make: Callable[[], T], otherwise: T, name: str, missing: list[str]) -> T:
    try:
        return make()
    except (XpuBuildError, OSError, ValueError) as error:
        why = error.what if isinstance(error, XpuBuildError) else error
        missing.append(f"{name} cannot be read: {why}")
        return otherwise


def _object(path: Path, name: str, unfit: Unfit) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found = json_value(read_bytes(path))
    if why := unfit(name, found):
        raise UntrustedError(why)
    return dict(found)


def _command(row: Mapping[str, Any], memory: Sequence[Sequence[float]]) -> ReportCommand:
    return ReportCommand(
        step=row["step"],
        argv=tuple(row["argv"]),
        started=row["started"],
        duration_s=round(row["duration_s"], 3),
        user_s=round(row["user_s"], 3),
        system_s=round(row["system_s"], 3),
        max_rss_bytes=row["max_rss_bytes"],
        peak_bytes=row["peak_tree_bytes"],
        returncode=row["returncode"],
        log=row["log"],
        memory=tuple((float(at_s), int(count)) for at_s, count in memory),
    )


def _explanations(layout: Layout, steps: Sequence[ReportStep], missing: list[str]) -> list[StepExplanation]:
    known = Circumstances(system=system_of(os_facts()))
    found = []
    for step in steps:
        log = layout.logs / f"{step.id}.log"
        if step.status == "failed" and log.parent == layout.logs and log.is_file():
            said = _tried(lambda log=log: explain_file(log, known).to_json(), None, log.name, missing)  # type: ignore[misc]
            if said is not None:
                found.append(StepExplanation(step.id, str(log), said))
    return found
