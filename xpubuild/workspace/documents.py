"""The JSON documents of plan and status, as docs/schema describes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.estimate import Estimate, total
from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.state import StepState
from xpubuild.errors import XpuBuildError
from xpubuild.supply.caching import rows
from xpubuild.supply.depot.evidence import taken_from
from xpubuild.workspace.layout import Layout


def plan_document(
    plan: Plan,
    states: Mapping[str, StepState],
    obstacles: Sequence[XpuBuildError] = (),
    estimates: Mapping[str, Estimate] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return the ``xpubuild.plan/1`` document; ``obstacles`` is what would stop an install.

    ``estimates`` says what the steps that are to do will take.
    """
    return {
        "schema": "xpubuild.plan/1",
        "recipe": plan.recipe,
        "workspace": plan.workspace,
        "lock_digest": plan.lock_digest,
        "summary": dict(plan.summary),
        "steps": [
            {**_step(step, plan.fingerprints[step.id], states[step.id]), **_estimate(estimates.get(step.id))}
            for step in plan.steps
        ],
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
        "state": state.word,
        "reason": state.reason,
        "store": step.keeper.to_json() if step.keeper is not None else None,
    }


def _estimate(found: Estimate | None) -> dict[str, Any]:
    return {} if found is None else {"estimate": plain(found)}


def status_document(workspace: str, journal: Journal, owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``xpubuild.status/1`` document: what the journal of a workspace knows."""
    records = journal.records()
    return {
        "schema": "xpubuild.status/1",
        "workspace": workspace,
        "locked_by": dict(owner) or None,
        "runs": journal.runs(),
        "steps": [
            {
                "id": record.step,
                "status": record.status,
                "fingerprint": record.fingerprint,
                "started": record.started,
                "duration_s": (record.ended - record.started) if record.ended else None,
                "detail": record.detail,
                "store": taken_from(record.evidence),
                "evidence": record.evidence,
                "published": record.published,
            }
            for record in records
        ],
        "compile_cache": rows(records, Layout(Path(workspace)).build),
    }
