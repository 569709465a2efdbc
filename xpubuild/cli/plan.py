"""``xpubuild plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.engine.model import Plan
    from xpubuild.locking.model import Policy


@click.command(name="plan", short_help="Show what install would do.")
@options.build_options()
@options.lock_options
@options.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "sh"]),
    default="table",
    help="Output format of the plan.",
)
@options.json_option
@options.speech()
def command(
    form: str, locked: bool, lock_file: Path | None, lock_policy: Policy, as_json: bool, **build: Any
) -> int:
    """Show what install would do for RECIPE, without building or fetching anything."""
    from xpubuild.gather.options import PlanOptions
    from xpubuild.installing.asked import LockOptions, prepare_as_asked

    asked = PlanOptions(**build, telling=options.new_sink)
    prepared = prepare_as_asked(asked, LockOptions(locked, lock_file, lock_policy))
    return show_plan(prepared.plan, "json" if as_json else form)


def show_plan(plan: Plan, form: str) -> int:
    """Print a plan with the state of its steps in its workspace."""
    from xpubuild.planning.script import script
    from xpubuild.ui.console import print_json, show, write_out
    from xpubuild.ui.plan_view import plan_view
    from xpubuild.workspace.documents import plan_document
    from xpubuild.workspace.status import standing

    if form == "sh":
        write_out(script(plan))
        return 0
    plan, states = standing(plan)
    if form == "json":
        print_json(plan_document(plan, states))
    else:
        show(
            plan_view(
                plan,
                {name: ("done" if state.done else "to do", state.reason) for name, state in states.items()},
            )
        )
    return 0
