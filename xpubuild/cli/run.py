"""``xpubuild run``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from xpubuild.cli import options

_WORDS = f"{__name__}.words"


class _RunCommand(options.Command):
    """A command whose words after ``--`` are another program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows ``--`` away from click."""
        place = args.index("--") if "--" in args else len(args)
        ctx.meta[_WORDS] = tuple(args[place + 1 :])
        try:
            return super().parse_args(ctx, args[:place])
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message:
                raise
            message = "put -- before the command: xpubuild run [WORKSPACE] -- COMMAND"
            raise click.UsageError(message, ctx) from error


@options.command("run", _RunCommand)
def command(recipe: str | None, workspace: Path | None, stand_in: bool) -> int:
    """Run COMMAND in the environment of WORKSPACE: a folder, or the recipe that was built there.

    Without WORKSPACE: the active workspace, or the only one. There is no shell in between: COMMAND gets the
    signals, and its exit status is that of xpubuild. Without COMMAND, your shell is started: it reads its own
    settings first, shows the name of the workspace before its prompt, and 'exit' leaves it.
    """
    from xpubuild.cli.configuration import of_caller
    from xpubuild.cli.workspace import workspace_of
    from xpubuild.engine.child import become
    from xpubuild.ui.invocation import how_called
    from xpubuild.verify.target import on_stand_in
    from xpubuild.workspace.activation import environment
    from xpubuild.workspace.shells import start, users_shell

    words: tuple[str, ...] = click.get_current_context().meta[_WORDS]
    root = workspace_of(recipe, workspace)
    env = environment(root, of_caller(os.environ))
    if stand_in:
        env = on_stand_in(root, env)
    if words:
        become(words, env)
    begin = start(users_shell(env), root, how_called(), env, asks=sys.stdin.isatty())
    become(begin.argv, begin.env)
