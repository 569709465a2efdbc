"""``xpubuild status``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import names, options


@click.command(name="status", short_help="Show the steps, runs and results of a workspace.")
@click.argument("recipe", required=False, shell_complete=names.workspaces)
@options.workspace_option()
@options.option(
    "--all",
    "all_",
    is_flag=True,
    envvar=None,
    help="List every workspace below the default folder, with size, age and last verify, and the caches.",
)
@options.path_option(
    "--jobs",
    default=None,
    envvar=None,
    help="Show the jobs in this folder, which 'plan --format slurm' has written.",
)
@options.json_option
@options.speech()
def command(recipe: str | None, workspace: Path | None, all_: bool, jobs: Path | None, as_json: bool) -> int:
    """Show the steps, runs and results of a workspace (default: that of RECIPE)."""
    from xpubuild.cli.workspace import existing
    from xpubuild.engine.journal import Journal
    from xpubuild.engine.lock import held_by
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import status_view
    from xpubuild.workspace.documents import status_document

    if jobs is not None:
        return _jobs(jobs, as_json=as_json)
    if all_:
        return _all(as_json=as_json)
    root = existing(workspace, recipe)
    with Journal(root / "journal.db", read_only=True) as journal:
        document = status_document(str(root), journal, held_by(root))
    if as_json:
        print_json(document)
    else:
        show(status_view(document))
    return 0


def _jobs(folder: Path, *, as_json: bool) -> int:
    from xpubuild.jobs.status import jobs_document
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import jobs_view

    document = jobs_document(folder)
    if as_json:
        print_json(document)
    else:
        show(jobs_view(document))
    return 0


def _all(*, as_json: bool) -> int:
    import os

    import platformdirs

    from xpubuild.cli.settings import apply_settings
    from xpubuild.install.options import default_workspace
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import overview_view
    from xpubuild.workspace.activation import ENTERED
    from xpubuild.workspace.overview import overview_document

    apply_settings()
    entered = os.environ.get(ENTERED)
    folder, cache = default_workspace("any").parent, platformdirs.user_cache_path("xpubuild")
    document = overview_document(folder, cache, Path(entered) if entered else None)
    if as_json:
        print_json(document)
    else:
        show(overview_view(document))
    return 0
