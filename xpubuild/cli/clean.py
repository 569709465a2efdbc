"""``xpubuild clean``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import names, options


@click.command(name="clean", short_help="Remove the files that xpubuild made in a workspace.")
@click.argument("recipe", required=False, shell_complete=names.workspaces, metavar="[WORKSPACE]")
@options.workspace_option()
@options.names_option("--step", "steps", help="Remove only the results of these steps.", envvar=None)
@options.option(
    "--older",
    default=None,
    metavar="AGE",
    envvar=None,
    help="Remove every workspace below the default folder without an install since, such as 30d, 8w or 6m.",
)
@options.option(
    "--caches", is_flag=True, envvar=None, help="Remove the caches of sources and packages, no workspace."
)
@options.option("--dry-run", is_flag=True, help="Show what would be removed, remove nothing.", envvar=None)
@options.option("--yes", is_flag=True, help="Do not ask for confirmation.", envvar=None)
@options.json_option
@options.speech()
def command(
    recipe: str | None,
    workspace: Path | None,
    steps: tuple[str, ...],
    older: str | None,
    caches: bool,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Remove the files that xpubuild made in a workspace. Your changes in src/ are kept.

    Asks first. Where nobody can be asked, as in a script, --yes is required.
    """
    import sys
    from dataclasses import replace

    from xpubuild.cli.workspace import workspace_of
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import clean_view
    from xpubuild.workspace.clean import plan_clean, remove

    if older is not None or caches:
        if workspace is not None or recipe is not None or steps or (caches and older is not None):
            raise click.UsageError("--older and --caches stand alone: no workspace, recipe or --step")
        return _many(older, dry_run=dry_run, yes=yes, as_json=as_json)
    root = workspace_of(recipe, workspace)
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


def _many(older: str | None, *, dry_run: bool, yes: bool, as_json: bool) -> int:
    import sys

    import platformdirs

    from xpubuild.cli.settings import apply_settings
    from xpubuild.install.options import default_workspace
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import many_view
    from xpubuild.workspace.clean import choose, remove_all

    apply_settings()
    folder, cache = default_workspace("any").parent, platformdirs.user_cache_path("xpubuild")
    chosen = choose(folder, cache, older)
    # What would go is shown before anybody is asked; with --json, standard output has the result alone.
    show(many_view(chosen.to_json(dry_run=True)), sys.stderr if as_json else None)
    if not dry_run and chosen.folders:
        told = f"--older {older} " if older is not None else "--caches "
        if yes or _confirmed(len(chosen.folders), folder if older is not None else cache, told):
            chosen = remove_all(chosen)
            if not as_json:
                show(many_view(chosen.to_json(dry_run=False)))
        else:
            chosen = chosen.refused()
    if as_json:
        print_json(chosen.to_json(dry_run=dry_run))
    return 0


def _confirmed(count: int, root: Path, how: str = "") -> bool:
    import shlex
    import sys

    from xpubuild.errors import UsageError

    if sys.stdin.isatty():
        return click.confirm(f"Remove {count} items from {root}?", err=True)
    words = how or f"--workspace {shlex.quote(str(root))} "
    raise UsageError(
        f"clean would remove {count} items from {root}, and there is no terminal to ask for confirmation",
        why="standard input is not a terminal",
        fix="pass --yes to remove them, or --dry-run to list them",
        commands=(f"xpubuild clean {words}--dry-run",),
    )
