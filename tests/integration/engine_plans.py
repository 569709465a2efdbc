"""Short plans for tests of the runner, and their way through it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from support.engine import Recorder, shell

from xpubuild.engine.journal import Journal
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import Outcome, run_plan


def go(plan: Plan, sink: Recorder | None = None, **options: Any) -> Outcome:
    with Journal(Path(plan.workspace) / "journal.db") as journal:
        journal.start_run(plan.recipe, ["test"], "0")
        options.setdefault("cancel", Cancel())
        return run_plan(plan, journal, sink=sink or Recorder(), **options)


def statuses(workspace: Path) -> dict[str, str]:
    with Journal(workspace / "journal.db", read_only=True) as journal:
        return {record.step: record.status for record in journal.records()}


def step(identifier: str, text: str = "true", *, needs: Sequence[str] = (), **options: Any) -> Step:
    return Step(
        id=identifier, title=f"step {identifier}", needs=tuple(needs), commands=(shell(text),), **options
    )
