"""``xpubuild completion``."""

from __future__ import annotations

import click

from xpubuild.cli import options

_VARIABLE = "_XPUBUILD_COMPLETE"


@click.command(name="completion", short_help="Print what completes commands, options and names in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.json_option
@options.speech()
@click.pass_context
def command(ctx: click.Context, /, shell: str, as_json: bool) -> int:
    """Print a script that completes commands, options, recipes, workspaces and checks in SHELL.

    \b
    bash: eval "$(xpubuild completion bash)"                 in ~/.bashrc
    zsh:  eval "$(xpubuild completion zsh)"                  in ~/.zshrc, after compinit
    fish: xpubuild completion fish > ~/.config/fish/completions/xpubuild.fish
    """
    from click.shell_completion import get_completion_class

    from xpubuild.ui.console import print_json, write_out

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has all three
    maker = kind(ctx.find_root().command, {}, "xpubuild", _VARIABLE)
    text = maker.source_template % maker.source_vars() + "\n"
    if as_json:
        print_json({"schema": "xpubuild.completion/1", "shell": shell, "script": text})
    else:
        write_out(text)
    return 0
