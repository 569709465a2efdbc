"""The state of a plan in its workspace, and the JSON documents of plan and status (docs/schema)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.documents import plain
from xpubuild.engine.forecast import Estimate, Total, total
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import began_under, described, held_by
from xpubuild.engine.model import Plan
from xpubuild.engine.state import CHANGED, StepState, plan_states, settle
from xpubuild.errors import XpuBuildError
from xpubuild.errors_json import Error
from xpubuild.supply.caching import StepCounts, rows
from xpubuild.supply.depot.record import taken_from
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.moved import made_in, origin

#: What a document has of a step as it is.
_OF_STEP = ("id", "title", "after", "inputs", "outputs", "memory_bytes")


class Run(TypedDict):
    """One install in the workspace."""

    id: int
    started: float
    """Seconds since the epoch."""
    ended: float | None
    """Null if it still runs or was killed."""
    status: Literal["ok", "failed", "cancelled"] | None
    recipe: str
    argv: list[str]
    version: str
    """Version of xpubuild."""


class StatusStep(TypedDict):
    """What the journal knows of a step."""

    id: str
    status: Literal["running", "done", "failed"]
    fingerprint: str
    started: float
    duration_s: float | None
    """Null if the step runs or was killed."""
    detail: str
    store: NotRequired[str | None]
    """The store that its wheel was taken from; null where it was built here."""
    evidence: list[dict[str, Any]]
    published: list[str]
    """Files that the step put in place."""


class StatusDocument(TypedDict):
    """The journal of a workspace."""

    schema: Literal["xpubuild.status/1"]
    """Name and version."""
    workspace: str
    locked_by: dict[str, Any] | None
    """pid, host, command, since of the process that uses it now."""
    runs: list[Run]
    """Oldest first."""
    steps: list[StatusStep]
    """In the order they were last started."""
    compile_cache: NotRequired[list[StepCounts]]
    """What compile caches hit in the last attempt of each step, also of one that failed or runs."""


class PlanCommand(TypedDict):
    """One process. An argv that begins with ``xpubuild`` is run by the xpubuild that applies the plan."""

    argv: list[str]
    env: dict[str, str]
    """Added to the base environment, which is built from an allow-list."""
    cwd: str | None
    """Working folder; null is the folder xpubuild runs in."""
    path_prefix: NotRequired[list[str]]
    """Folders put in front of PATH."""
    alternatives: NotRequired[list[list[str]]]
    """Tried in order if argv fails."""
    shortcut: NotRequired[list[str]]
    """Run before argv: it makes the same with less work, and argv is run where it fails."""
    isolated: NotRequired[bool]
    """It has no network but loopback, where the kernel allows that."""


class PlanStore(TypedDict):
    """What the stores of built wheels know of a step that builds one."""

    answer: Literal["kept", "absent", "unknown"]
    """kept: it is taken from there; unknown: a store did not answer or is not used."""
    identity: NotRequired[str | None]
    """Build identity: sha256 of everything that decides the wheel, paths left out."""
    store: NotRequired[str | None]
    wheel: NotRequired[str | None]
    unknown: NotRequired[dict[str, str]]
    """Stores that gave no answer, with the reason."""
    differs: NotRequired[str]
    """Why a kept wheel of these tools is not taken; empty where there is none."""


class PlanStep(TypedDict):
    """One step of the plan."""

    id: str
    title: str
    needs: list[str]
    """Ids of the steps that must be done before this one."""
    after: NotRequired[list[str]]
    """Ids of steps that come first where they run, and whose results are not used."""
    commands: list[PlanCommand]
    proves: list[str]
    """Post-conditions that are checked after the commands, in words."""
    inputs: list[str]
    outputs: list[str]
    fingerprint: str
    """sha256 that changes with whatever changes the result."""
    memory_bytes: int
    """What the step may need at once; 0 where it is little."""
    state: Literal["done", "to-do"]
    """Whether the step would run now."""
    reason: str
    """Why it would run; empty where it would not."""
    estimate: NotRequired[Estimate | None]
    """Of a step that would run now."""
    store: NotRequired[PlanStore | None]
    """Null for a step that builds no wheel, and for one that is done."""


class PlanDocument(TypedDict):
    """What install would do, step by step."""

    schema: Literal["xpubuild.plan/1"]
    """Name and version."""
    recipe: str
    workspace: str
    lock_digest: str
    """sha256 of everything that decides what is built, paths left out."""
    summary: dict[str, Any]
    """What was chosen, for people; keys may change."""
    steps: list[PlanStep]
    """In an order in which every step follows what it needs."""
    estimate: NotRequired[Total | None]
    """Absent where nothing would run."""
    obstacles: NotRequired[list[Error]]
    """What would stop an install before its first step: too little space, a file that nobody has."""


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
    plan: Plan, states: Mapping[str, StepState], obstacles: Sequence[XpuBuildError] = (),
    estimates: Mapping[str, Estimate] = MappingProxyType({}),
) -> dict[str, Any]:  # fmt: skip
    """Return the ``xpubuild.plan/1`` document; ``obstacles`` is what would stop an install.

    ``estimates`` says what the steps that are to do will take.
    """
    steps = [
        {
            **{name: plain(getattr(step, name)) for name in _OF_STEP},
            "needs": [*step.needs, *step.tools],
            "commands": [command.to_json() for command in step.commands],
            "proves": [proof.describe() for proof in step.proofs],
            "fingerprint": plan.fingerprints[step.id],
            "state": "done" if states[step.id].done else "to-do", "reason": states[step.id].reason,
            "store": step.keeper.to_json() if step.keeper is not None else None,
            **({"estimate": plain(estimates[step.id])} if step.id in estimates else {}),
        }
        for step in plan.steps
    ]  # fmt: skip
    return {
        "schema": "xpubuild.plan/1", "recipe": plan.recipe, "workspace": plan.workspace,
        "lock_digest": plan.lock_digest, "summary": dict(plan.summary), "steps": steps,
        **({"estimate": plain(total(plan.steps, estimates))} if estimates else {}),
        "obstacles": [error.to_json() for error in obstacles],
    }  # fmt: skip


def status_document(workspace: str, journal: Journal, owner: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``xpubuild.status/1`` document: what the journal of a workspace knows."""
    records = journal.records()
    same = ("status", "fingerprint", "started", "detail", "evidence", "published")
    steps = [
        {
            "id": record.step, "duration_s": (record.ended - record.started) if record.ended else None,
            "store": taken_from(record.evidence), **{name: getattr(record, name) for name in same},
        }
        for record in records
    ]  # fmt: skip
    return {
        "schema": "xpubuild.status/1", "workspace": workspace, "locked_by": dict(owner) or None,
        "runs": journal.runs(), "steps": steps,
        "compile_cache": rows(records, Layout(Path(workspace)).build),
    }  # fmt: skip
