"""``xpubuild env``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from xpubuild.cli import options


@click.command(name="env", short_help="Print the shell commands that activate a workspace.")
@click.argument("recipe", required=False)
@options.workspace_option()
@options.option(
    "--shell",
    type=click.Choice(["bash", "fish", "json"]),
    default="bash",
    envvar=None,
    help="Syntax of the commands: bash (also for sh, zsh and ksh) or fish; json is the same as --json.",
)
@options.json_option
def command(recipe: str | None, workspace: Path | None, shell: str, as_json: bool) -> int:
    """Print the commands that activate a workspace (default: that of RECIPE): eval "$(xpubuild env)"."""
    from xpubuild.cli.workspace import existing
    from xpubuild.oneapi.shell import bash_lines, fish_lines
    from xpubuild.ui.console import print_json, write_out
    from xpubuild.workspace.activation import assignments

    root = existing(workspace, recipe)
    values = assignments(root, os.environ)
    if as_json or shell == "json":
        print_json({"schema": "xpubuild.env/1", "workspace": str(root), "env": values})
    else:
        lines = (bash_lines if shell == "bash" else fish_lines)(values)
        # A value of the environment may hold bytes that are no UTF-8: they go out as they came in.
        write_out(lines.encode("utf-8", "surrogateescape"))
    return 0
