"""``xpubuild shell``."""

from __future__ import annotations

import os
import sys

import click

from xpubuild.cli import names, options


@click.command(name="shell", short_help="Start a shell in a workspace's environment.")
@click.argument(
    "workspace_or_recipe", required=False, shell_complete=names.workspaces, metavar="[WORKSPACE|RECIPE]"
)
@options.speech()
def command(workspace_or_recipe: str | None) -> int:
    """Start your shell in the environment of a workspace: a folder, or the recipe that was built there.

    Without either: the active workspace, or the only one. Your own settings of the shell are read first; the
    name of the workspace is put before the prompt of bash, zsh, fish and sh. 'exit' leaves it, and nothing of
    it stays.
    """
    from xpubuild.cli.configuration.lookup import of_caller
    from xpubuild.cli.workspace import named
    from xpubuild.engine.become import become
    from xpubuild.ui.invocation import program
    from xpubuild.workspace.activation import environment
    from xpubuild.workspace.shells import start, users_shell

    root = named(workspace_or_recipe)
    env = environment(root, of_caller(os.environ))
    begin = start(users_shell(env), root, program(), env, asks=sys.stdin.isatty())
    become(begin.argv, begin.env)
