"""``xpubuild clean``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from xpubuild.cli import options


@options.command("clean")
def command(
    recipe: str | None, workspace: Path | None, steps: tuple[str, ...], older: str | None, caches: bool,
    dry_run: bool, yes: bool,
) -> int:  # fmt: skip
    """Remove the files that xpubuild made in a workspace. Your changes in src/ are kept.

    Asks first. Where nobody can be asked, as in a script, --yes is required.
    """
    import shlex
    from dataclasses import replace

    from xpubuild.cli.workspace import workspace_of
    from xpubuild.ui.views import clean_view
    from xpubuild.workspace.clean import plan_clean, remove

    if older is not None or caches:
        if workspace is not None or recipe is not None or steps or (caches and older is not None):
            raise click.UsageError("--older and --caches stand alone: no workspace, recipe or --step")
        return _many(older, dry_run=dry_run, yes=yes)
    root = workspace_of(recipe, workspace)
    removal = plan_clean(root, steps)
    if not dry_run:
        if yes or _confirmed(len(removal.paths), root, f"--workspace {shlex.quote(str(root))}"):
            removal = remove(root, steps)
        else:
            removal = replace(removal, paths=(), steps=(), kept=())
            if not options.speech().as_json:
                sys.stdout.write("nothing removed\n")
                return 0
    return options.answer(removal.to_json(dry_run=dry_run), clean_view)


def _many(older: str | None, *, dry_run: bool, yes: bool) -> int:
    import platformdirs

    from xpubuild.install.options import default_workspace
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import many_view
    from xpubuild.workspace.clean import choose, remove_all

    as_json = options.speech().as_json
    folder, cache = default_workspace("any").parent, platformdirs.user_cache_path("xpubuild")
    chosen = choose(folder, cache, older)
    # What would go is shown before anybody is asked; with --json, standard output has the result alone.
    show(many_view(chosen.to_json(dry_run=True)), sys.stderr if as_json else None)
    if not dry_run and chosen.folders:
        words = f"--older {older}" if older is not None else "--caches"
        if yes or _confirmed(len(chosen.folders), folder if older is not None else cache, words):
            chosen = remove_all(chosen)
            if not as_json:
                show(many_view(chosen.to_json(dry_run=False)))
        else:
            chosen = chosen.refused()
    if as_json:
        print_json(chosen.to_json(dry_run=dry_run))
    return 0


def _confirmed(count: int, root: Path, words: str) -> bool:
    return options.confirmed(
        f"Remove {count} items from {root}?",
        f"clean would remove {count} items from {root}",
        f"xpubuild clean {words}",
    )
