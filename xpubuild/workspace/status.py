"""The state of a plan in its workspace, and the JSON documents of plan and status (docs/schema)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.forecast import Estimate, total
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import began_under, described, held_by
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.state import CHANGED, StepState, plan_states, settle
from xpubuild.errors import XpuBuildError
from xpubuild.supply.caching import rows
from xpubuild.supply.depot.record import taken_from
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.moved import made_in, origin


def standing(plan: Plan) -> tuple[Plan, Mapping[str, StepState]]:
    """Return a plan with what its workspace shows in its summary, and the state of every step.

    Raises:
        ToolchainError: the journal cannot be read.
    """
    root = Path(plan.workspace)
    path = Layout(root).journal
    if not path.is_file():
        return plan, plan_states(plan, None)
    with Journal(path, read_only=True) as journal:
        owner, elsewhere, before = held_by(root), made_in(root), last_plan(Layout(root))
        states: dict[str, StepState] = {}
        for step in plan.steps:
            # What a run would find before it: the same looks, nothing written.
            try:
                state = settle(step, plan.fingerprints[step.id], journal, write=False)
            except XpuBuildError as error:
                reason = f"install stops here (exit code {error.exit_code}): {error.what}"
                state = StepState(done=False, reason=reason)
            record, old = journal.record(step.id), before.get(step.id)
            if record and record.status == "running" and owner and began_under(owner, record.started):
                other = ", with other inputs" if record.fingerprint != plan.fingerprints[step.id] else ""
                state = replace(state, reason=f"is running now, by {described(owner)}{other}")
            # By the plan of the last install: where that is what was done then.
            elif state.reason == CHANGED and old and record and old.get("fingerprint") == record.fingerprint:
                state = replace(state, reason=f"{CHANGED}{_difference(plan, step.id, before)}")
            states[step.id] = state
    summary = {
        **({"in_use": f"by {described(owner)}"} if owner else {}),
        **({"moved": origin(elsewhere)} if elsewhere is not None else {}),
    }
    return replace(plan, summary={**plan.summary, **summary}), states


def _difference(plan: Plan, name: str, before: Mapping[str, Mapping[str, Any]]) -> str:
    """Return what of a step is not as before, shortly: its title, or what it needs; "" if neither."""
    step, old = plan.step(name), before[name]
    if old.get("title") != step.title:
        return f"; before: {old.get('title')}"
    prints = {need: before.get(need, {}).get("fingerprint") for need in step.needs}
    needs = [need for need in step.needs if plan.fingerprints[need] != prints[need]]
    return f": {', '.join(needs)}" if needs else ""


def last_plan(layout: Layout) -> dict[str, Mapping[str, Any]]:
    """Return the steps of the last install's plan by id; nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        steps = json.loads(layout.plan.read_text("utf-8"))["steps"]
        return {step["id"]: {**step, "needs": [str(need) for need in step["needs"]]} for step in steps}
    return {}


def plan_document(
    plan: Plan,
    states: Mapping[str, StepState],
    obstacles: Sequence[XpuBuildError] = (),
    estimates: Mapping[str, Estimate] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the ``xpubuild.plan/1`` document; ``obstacles`` is what would stop an install.

    ``estimates`` says what the steps that are to do will take.
    """
    steps = []
    for step in plan.steps:
        document = _step(step, plan.fingerprints[step.id], states[step.id])
        estimate = estimates.get(step.id)
        steps.append(document if estimate is None else {**document, "estimate": plain(estimate)})
    return {
        "schema": "xpubuild.plan/1",
        "recipe": plan.recipe,
        "workspace": plan.workspace,
        "lock_digest": plan.lock_digest,
        "summary": dict(plan.summary),
        "steps": steps,
        **({"estimate": plain(total(plan.steps, estimates))} if estimates else {}),
        "obstacles": [error.to_json() for error in obstacles],
    }


def _step(step: Step, fingerprint: str, state: StepState) -> dict[str, Any]:
    return {
        "id": step.id,
        "title": step.title,
        "needs": [*step.needs, *step.tools],
        "after": list(step.after),
        "commands": [command.to_json() for command in step.commands],
        "proves": [proof.describe() for proof in step.proofs],
        "inputs": list(step.inputs),
        "outputs": list(step.outputs),
        "fingerprint": fingerprint,
        "memory_bytes": step.memory_bytes,
        "state": "done" if state.done else "to-do",
        "reason": state.reason,
        "store": step.keeper.to_json() if step.keeper is not None else None,
    }


def status_document(workspace: str, journal: Journal, owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``xpubuild.status/1`` document: what the journal of a workspace knows."""
    records = journal.records()
    same = ("status", "fingerprint", "started", "detail", "evidence", "published")
    return {
        "schema": "xpubuild.status/1",
        "workspace": workspace,
        "locked_by": dict(owner) or None,
        "runs": journal.runs(),
        "steps": [
            {
                "id": record.step,
                "duration_s": (record.ended - record.started) if record.ended else None,
                "store": taken_from(record.evidence),
                **{name: getattr(record, name) for name in same},
            }
            for record in records
        ],
        "compile_cache": rows(records, Layout(Path(workspace)).build),
    }
