"""The state of a plan in its workspace: which steps are done, which process uses it, whether it was moved."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import described, held_by
from xpubuild.engine.model import Plan
from xpubuild.engine.state import Elsewhere, StepState, plan_states, settled_states
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
        states = settled_states(plan, journal, elsewhere)
    told = {
        **({"in_use": f"by {described(owner)}"} if owner else {}),
        **({"moved": found.told()} if found is not None else {}),
    }
    return replace(plan, summary={**plan.summary, **told}), states
