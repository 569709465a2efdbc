"""``xpubuild report``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import names, options


@click.command(name="report", short_help="Write a page about a workspace: times, memory, proofs, failures.")
@click.argument("workspace_or_recipe", required=False, shell_complete=names.workspaces, metavar="[WORKSPACE]")
@options.workspace_option("Folder of the workspace (default: that of WORKSPACE, the active or the only one).")
@options.path_option(
    "--output",
    metavar="FILE",
    default=None,
    envvar=None,
    help="File for the page (default: NAME-report.html in the current folder).",
)
@options.path_option(
    "--trace",
    metavar="FILE",
    default=None,
    envvar=None,
    help="Also write the times as trace events, for Perfetto or chrome://tracing.",
)
@options.json_option
@options.speech()
def command(
    workspace_or_recipe: str | None,
    workspace: Path | None,
    output: Path | None,
    trace: Path | None,
    as_json: bool,
) -> int:
    """Write one HTML page about WORKSPACE: a folder, or the recipe that was built there.

    The page shows steps and compilations over time, memory, what was proved, the results of verify, and the
    causes of a failure. It needs no network and no other file, and has no secrets. With --json the document
    is printed instead, and a page is written only with --output.
    """
    import json

    from xpubuild.cli.report_json import unfit
    from xpubuild.cli.workspace import named
    from xpubuild.engine.files import write_atomic
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.report.page import page
    from xpubuild.ui.views import report_view
    from xpubuild.workspace.report_document import report_document
    from xpubuild.workspace.trace import trace as trace_of

    root = named(workspace_or_recipe, workspace)
    document = report_document(root, unfit)
    file = output or (None if as_json else Path(f"{root.name}-report.html").absolute())
    if file is not None:
        write_atomic(file, page(document).encode())
    if trace is not None:
        write_atomic(trace, (json.dumps(trace_of(document)) + "\n").encode())
    if as_json:
        print_json(document)
    else:
        show(report_view(document, file, trace))
    return 0
