"""``xpubuild run``."""

from __future__ import annotations

import os
import shlex

import click

from xpubuild.cli import names, options

_WORDS = f"{__name__}.words"


class RunCommand(click.Command):
    """A command whose words after ``--`` are another program's."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep what follows ``--`` away from click."""
        place = args.index("--") if "--" in args else len(args)
        if (
            len([word for word in args[:place] if not word.startswith("-")]) > 1
            and "--log-format" not in args
        ):
            raise click.UsageError(
                "put -- before the command: xpubuild run [WORKSPACE|RECIPE] -- COMMAND", ctx
            )
        ctx.meta[_WORDS] = tuple(args[place + 1 :])
        return super().parse_args(ctx, args[:place])


@click.command(
    name="run",
    cls=RunCommand,
    short_help="Run a command in a workspace's environment.",
)
@click.argument(
    "workspace_or_recipe",
    required=False,
    shell_complete=names.workspaces,
    metavar="[WORKSPACE|RECIPE] -- COMMAND...",
)
@options.speech()
@click.pass_context
def command(ctx: click.Context, /, workspace_or_recipe: str | None) -> int:
    """Run COMMAND in the environment of a workspace: a folder, or the recipe that was built there.

    Without either: the active workspace, or the only one. There is no shell in between: COMMAND gets the
    signals, and its exit status is that of xpubuild.
    """
    from xpubuild.cli.configuration.lookup import of_caller
    from xpubuild.cli.workspace import named
    from xpubuild.engine.become import become
    from xpubuild.errors import UsageError
    from xpubuild.workspace.activation import environment

    words: tuple[str, ...] = ctx.meta[_WORDS]
    if not words:
        place = f"{shlex.quote(workspace_or_recipe)} " if workspace_or_recipe else ""
        raise UsageError(
            "no command was specified",
            fix="put the command after --",
            commands=(f"xpubuild run {place}-- python -c 'import torch; print(torch.__version__)'",),
        )
    become(words, environment(named(workspace_or_recipe), of_caller(os.environ)))
