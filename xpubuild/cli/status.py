"""``xpubuild status``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import names, options


@click.command(name="status", short_help="Show the steps, runs and results of a workspace.")
@click.argument("recipe", required=False, shell_complete=names.workspaces)
@options.workspace_option()
@options.json_option
@options.speech()
def command(recipe: str | None, workspace: Path | None, as_json: bool) -> int:
    """Show the steps, runs and results of a workspace (default: that of RECIPE)."""
    from xpubuild.cli.workspace import existing
    from xpubuild.engine.journal import Journal
    from xpubuild.engine.lock import held_by
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import status_view
    from xpubuild.workspace.documents import status_document

    root = existing(workspace, recipe)
    with Journal(root / "journal.db", read_only=True) as journal:
        document = status_document(str(root), journal, held_by(root))
    if as_json:
        print_json(document)
    else:
        show(status_view(document))
    return 0
