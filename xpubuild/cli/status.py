"""``xpubuild status``."""

from __future__ import annotations

from pathlib import Path

from xpubuild.cli import options


@options.command("status")
def command(
    recipe: str | None, workspace: Path | None, all_: bool, jobs: Path | None, html: str | None,
) -> int:  # fmt: skip
    """Show the steps, runs and results of WORKSPACE: a folder, or the recipe that was built there.

    The page of --html needs no network and no other file, and has no secrets. With --json, --html
    prints the document of the page; with --html - no page is written then.
    """
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.engine.journal import Journal
    from xpubuild.engine.lock import held_by
    from xpubuild.ui.views import jobs_view, status_view
    from xpubuild.workspace.status import status_document

    if jobs is not None:
        from xpubuild.jobs.status import jobs_document

        return options.answer(jobs_document(jobs), jobs_view)
    if all_:
        return _all()
    root = workspace_of(recipe, workspace)
    if html is not None:
        return _page(root, html)
    with Journal(root / "journal.db", read_only=True) as journal:
        document = status_document(str(root), journal, held_by(root))
    return options.answer(document, status_view)


def _page(root: Path, html: str) -> int:
    from xpubuild.cli.report_json import unfit
    from xpubuild.engine.files import write_atomic
    from xpubuild.ui.console import write_out
    from xpubuild.ui.report.page import page
    from xpubuild.ui.views import report_view
    from xpubuild.workspace.report import report_document

    document = report_document(root, unfit)
    if html == "-" and not options.speech().as_json:
        write_out(page(document))
        return 0
    file = Path(html).expanduser().absolute()
    if html != "-":
        write_atomic(file, page(document).encode())
    return options.answer(document, lambda found: report_view(found, file))


def _all() -> int:
    import os

    import platformdirs

    from xpubuild.install.options import default_workspace
    from xpubuild.ui.views import overview_view
    from xpubuild.workspace.activation import ENTERED
    from xpubuild.workspace.overview import overview_document

    entered = os.environ.get(ENTERED)
    folder, cache = default_workspace("any").parent, platformdirs.user_cache_path("xpubuild")
    return options.answer(overview_document(folder, cache, Path(entered) if entered else None), overview_view)
