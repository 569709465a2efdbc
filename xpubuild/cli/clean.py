"""``xpubuild clean``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import options


@click.command(name="clean", short_help="Remove the files that xpubuild made in a workspace.")
@click.argument("recipe", required=False)
@options.workspace_option()
@options.names_option("--step", "steps", help="Remove only the results of these steps.", envvar=None)
@options.option("--dry-run", is_flag=True, help="Show what would be removed, remove nothing.", envvar=None)
@options.option("--yes", is_flag=True, help="Do not ask for confirmation.", envvar=None)
@options.json_option
def command(
    recipe: str | None,
    workspace: Path | None,
    steps: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove the files that xpubuild made in a workspace. Your changes in src/ are kept."""
    import sys

    from xpubuild.cli.workspace import existing
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import clean_view
    from xpubuild.workspace.clean import plan_clean, remove

    root = existing(workspace, recipe)
    removal = plan_clean(root, steps)
    if not dry_run:
        if not yes and sys.stdin.isatty():
            click.confirm(f"Remove {len(removal.paths)} items from {root}?", abort=True, err=True)
        removal = remove(root, steps)
    if as_json:
        print_json(removal.to_json(dry_run=dry_run))
    else:
        show(clean_view(removal.to_json(dry_run=dry_run)))
    return 0
