"""``xpubuild plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.engine.model import Step
    from xpubuild.engine.state import StepState
    from xpubuild.install.options import Policy
    from xpubuild.install.target import Prepared


@options.command("plan")
def command(
    form: Any, matrix: tuple[str, ...], output: Path | None,
    locked: bool, lock_file: Path | None, lock_policy: Policy, **build: Any,
) -> int:  # fmt: skip
    """Show what install would do for RECIPE, without building or fetching anything."""
    from xpubuild.install.install import prepare_as_asked
    from xpubuild.install.options import LockOptions, Options

    asked = Options(**build, telling=options.new_sink)
    lock = LockOptions(locked, lock_file, lock_policy)
    if form in ("slurm", "pbs"):
        return _jobs(asked, lock, form, matrix, output)
    if matrix or output:
        raise click.UsageError("--matrix and --output are for --format slurm and --format pbs")
    return show_plan(prepare_as_asked(asked, lock), form)


def _jobs(asked: Any, lock: Any, form: Any, matrix: tuple[str, ...], output: Path | None) -> int:
    """Write a folder of jobs."""
    import os
    import sys

    from xpubuild.jobs.asked import Asked
    from xpubuild.jobs.model import KINDS
    from xpubuild.ui.views import planned_jobs_view

    nodes: dict[str, Any] = {kind: options.configuration().nodes(kind) for kind in KINDS}
    words = (sys.executable, "-m", "xpubuild")
    jobs = Asked(form, matrix, output, nodes, words, os.environ.get("XDG_CACHE_HOME", ""))
    return options.answer(jobs.write(asked, lock), planned_jobs_view)


def show_plan(prepared: Prepared, form: str, until: str | None = None) -> int:
    """Print a plan, up to the step ``until``, with the state of its steps and what would stop an install."""
    from dataclasses import replace

    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import needed_for
    from xpubuild.install.estimate import estimates
    from xpubuild.install.install import foreseen
    from xpubuild.install.kept import with_stores
    from xpubuild.install.script import script
    from xpubuild.ui.console import print_json, show, write_out
    from xpubuild.ui.run_views import plan_view
    from xpubuild.workspace.status import plan_document, standing

    plan = replace(prepared.plan, steps=needed_for(prepared.plan, until))
    as_json = form == "json" or options.speech().as_json
    if form == "sh" and not as_json:
        write_out(script(plan))
        return 0
    plan, states = standing(plan)
    todo = [name for name, state in states.items() if not state.done]
    plan = with_stores(replace(prepared, plan=plan), set(states).difference(todo)).plan
    obstacles = foreseen(prepared, todo, Cancel())
    guesses = estimates(replace(prepared, plan=plan), todo)
    if as_json:
        print_json(plan_document(plan, states, obstacles, guesses))
    else:
        words = {step.id: _state(step, states[step.id]) for step in plan.steps}
        show(plan_view(plan, words, obstacles, guesses))
    return 0


def _state(step: Step, state: StepState) -> tuple[str, str]:
    """Return whether a step is done, and why not; of one whose result is kept, where."""
    if state.done:
        return "done", state.reason
    kept = step.keeper.describe() if step.keeper is not None else ""
    return "to do", "; ".join(filter(None, (state.reason, kept)))
