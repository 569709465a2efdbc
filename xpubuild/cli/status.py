"""``xpubuild status``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import names, options


@click.command(name="status", short_help="Show the steps, runs and results of a workspace.")
@click.argument("recipe", required=False, shell_complete=names.workspaces, metavar="[WORKSPACE]")
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
@options.option(
    "--html",
    metavar="FILE",
    default=None,
    envvar=None,
    help="Write one page (-: to stdout): times, memory, proofs, verify, the causes of a failure.",
)
@options.json_option
@options.speech()
def command(
    recipe: str | None,
    workspace: Path | None,
    all_: bool,
    jobs: Path | None,
    html: str | None,
    as_json: bool,
) -> int:
    """Show the steps, runs and results of WORKSPACE: a folder, or the recipe that was built there.

    The page of --html needs no network and no other file, and has no secrets. With --json, --html
    prints the document of the page; with --html - no page is written then.
    """
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.engine.journal import Journal
    from xpubuild.engine.lock import held_by
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import status_view
    from xpubuild.workspace.status import status_document

    if jobs is not None:
        return _jobs(jobs, as_json=as_json)
    if all_:
        return _all(as_json=as_json)
    root = workspace_of(recipe, workspace)
    if html is not None:
        return _page(root, html, as_json=as_json)
    with Journal(root / "journal.db", read_only=True) as journal:
        document = status_document(str(root), journal, held_by(root))
    if as_json:
        print_json(document)
    else:
        show(status_view(document))
    return 0


def _page(root: Path, html: str, *, as_json: bool) -> int:
    from xpubuild.cli.report_json import unfit
    from xpubuild.engine.files import write_atomic
    from xpubuild.ui.console import print_json, show, write_out
    from xpubuild.ui.report.page import page
    from xpubuild.ui.views import report_view
    from xpubuild.workspace.report import report_document

    document = report_document(root, unfit)
    file = Path(html).expanduser().absolute() if html != "-" else None
    if file is not None:
        write_atomic(file, page(document).encode())
    if as_json:
        print_json(document)
    elif file is None:
        write_out(page(document))
    else:
        show(report_view(document, file))
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
