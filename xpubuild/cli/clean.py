"""``xpubuild clean``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import names, options


@click.command(name="clean", short_help="Remove the files that xpubuild made in a workspace.")
@click.argument("recipe", required=False, shell_complete=names.workspaces)
@options.workspace_option()
@options.names_option("--step", "steps", help="Remove only the results of these steps.", envvar=None)
@options.option("--dry-run", is_flag=True, help="Show what would be removed, remove nothing.", envvar=None)
@options.option("--yes", is_flag=True, help="Do not ask for confirmation.", envvar=None)
@options.json_option
@options.speech()
def command(
    recipe: str | None,
    workspace: Path | None,
    steps: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove the files that xpubuild made in a workspace. Your changes in src/ are kept.

    Asks first. Where nobody can be asked, as in a script, --yes is required.
    """
    import sys
    from dataclasses import replace

    from xpubuild.cli.workspace import existing
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import clean_view
    from xpubuild.workspace.clean import plan_clean, remove

    root = existing(workspace, recipe)
    removal = plan_clean(root, steps)
    if not dry_run:
        if yes or _confirmed(len(removal.paths), root):
            removal = remove(root, steps)
        else:
            removal = replace(removal, paths=(), steps=(), kept=())
            if not as_json:
                sys.stdout.write("nothing removed\n")
                return 0
    if as_json:
        print_json(removal.to_json(dry_run=dry_run))
    else:
        show(clean_view(removal.to_json(dry_run=dry_run)))
    return 0


def _confirmed(count: int, root: Path) -> bool:
    import shlex
    import sys

    from xpubuild.errors import UsageError

    if sys.stdin.isatty():
        return click.confirm(f"Remove {count} items from {root}?", err=True)
    raise UsageError(
        f"clean would remove {count} items from {root}, and there is no terminal to ask for confirmation",
        why="standard input is not a terminal",
        fix="pass --yes to remove them, or --dry-run to list them",
        commands=(f"xpubuild clean --workspace {shlex.quote(str(root))} --dry-run",),
    )
