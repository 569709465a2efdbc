"""The state of a plan in its workspace: which steps are done, which process uses it, whether it was moved."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import described, held_by
from xpubuild.engine.model import Plan
from xpubuild.engine.state import CHANGED, Elsewhere, StepState, plan_states, settled_states
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.moved import moved


def standing(plan: Plan) -> tuple[Plan, Mapping[str, StepState]]:
    """Return a plan with what its workspace tells in its summary, and the state of every step.

    Raises:
        ToolchainError: the journal cannot be read.
    """
    root = Path(plan.workspace)
    path = Layout(root).journal
    if not path.is_file():
        return plan, plan_states(plan, None)
    with contextlib.closing(Journal(path, read_only=True)) as journal:
        owner, found = held_by(root), moved(root, journal)
        elsewhere = Elsewhere(owner, str(found.old) if found is not None else "")
        states = _what_changed(plan, settled_states(plan, journal, elsewhere), journal)
    told = {
        **({"in_use": f"by {described(owner)}"} if owner else {}),
        **({"moved": found.told()} if found is not None else {}),
    }
    return replace(plan, summary={**plan.summary, **told}), states


def _what_changed(plan: Plan, states: Mapping[str, StepState], journal: Journal) -> Mapping[str, StepState]:
    """Say of changed inputs which ones, by the plan of the last install: where that is what was done then."""
    before = last_plan(Layout(Path(plan.workspace)))
    found = dict(states)
    for name, state in states.items():
        record, old = journal.record(name), before.get(name)
        if state.reason == CHANGED and old and record and old.get("fingerprint") == record.fingerprint:
            found[name] = replace(state, reason=f"{CHANGED}{_difference(plan, name, old, before)}")
    return found


def _difference(
    plan: Plan, name: str, old: Mapping[str, Any], before: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return what of a step is not as before, shortly: its title, or what it needs; "" if neither."""
    step = plan.step(name)
    if old.get("title") != step.title:
        return f"; before: {old.get('title')}"
    needs = [
        item for item in step.needs if plan.fingerprints[item] != before.get(item, {}).get("fingerprint")
    ]
    return f": {', '.join(needs)}" if needs else ""


def last_plan(layout: Layout) -> dict[str, Mapping[str, Any]]:
    """Return the steps of the last install's plan by id; nothing where it cannot be read."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        document = json.loads(layout.plan.read_text("utf-8"))
        return {step["id"]: step for step in document["steps"]}
    return {}
