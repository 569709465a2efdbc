"""``xpubuild config``: show, check and write configuration files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from xpubuild.cli import options

_VARIABLE = "_XPUBUILD_COMPLETE"


@click.group(
    name="config",
    short_help="Show, check and write configuration files; print shell completion.",
    invoke_without_command=True,
)
@options.option(
    "--recipe",
    default=None,
    metavar="FILE",
    help="Also read the project's file beside this recipe.",
    envvar=None,
)
@options.option("--all", "all_", is_flag=True, help="Also list what nothing sets.", envvar=None)
@options.json_option
@options.speech()
@click.pass_context
def command(ctx: click.Context, recipe: str | None, all_: bool, as_json: bool) -> int:
    """Show each setting that a file or the environment makes, with its value and where it comes from.

    Files, the later one wins: the site's (xpubuild/config.toml in XDG_CONFIG_DIRS), yours (in
    XDG_CONFIG_HOME), the project's (xpubuild.toml beside a recipe). The environment (XPUBUILD_<OPTION>) and
    options win over all of them.
    """
    if ctx.invoked_subcommand is not None:
        return 0
    from xpubuild.cli.configuration.lookup import load
    from xpubuild.cli.configuration.report import config_document
    from xpubuild.cli.settings import commands
    from xpubuild.engine.redact import Redactor
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import config_view

    known = commands()
    found = config_document(load(known, os.environ, recipe), known, os.environ, everything=all_)
    document = Redactor.from_environment(os.environ).tree(found)
    if as_json:
        print_json(document)
    else:
        show(config_view(document))
    return 0


@command.command(short_help="Check configuration files for errors.")
@click.argument("file", nargs=-1, type=click.Path(path_type=Path))
@options.json_option
@options.speech()
def check(file: tuple[Path, ...], as_json: bool) -> int:
    """Check FILEs (default: the site's and yours): each error with its line and value. Exits with code 20.

    A file with the name xpubuild.toml is checked as a project's, which may set less than the others.
    """
    from xpubuild.cli.configuration.report import check_document
    from xpubuild.cli.settings import commands
    from xpubuild.engine.redact import Redactor
    from xpubuild.errors import RecipeError
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import config_check_view

    mask = Redactor.from_environment(os.environ)
    document: dict[str, Any] = mask.tree(check_document(file, commands(), os.environ))
    if as_json:
        print_json(document)
    else:
        show(config_check_view(document))
    return 0 if document["status"] == "ok" else RecipeError.exit_code


@command.command(short_help="Write a configuration file with every setting as a comment.")
@options.path_option(
    "-o", "--output", metavar="FILE", default=None, envvar=None,
    help="File to write, which must not exist (default: your own, in XDG_CONFIG_HOME).",
)  # fmt: skip
@options.json_option
@options.speech()
def init(output: Path | None, as_json: bool) -> int:
    """Write a configuration file that lists every setting as a comment, and changes nothing by itself."""
    from xpubuild.cli.configuration.files import user_file
    from xpubuild.cli.configuration.model import PROJECT_FILE
    from xpubuild.cli.configuration.template import template, write_new
    from xpubuild.cli.settings import commands
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.views import config_written_view

    path = output or user_file(os.environ)
    write_new(path, template(commands(), project=path.name == PROJECT_FILE))
    document = {"schema": "xpubuild.config-init/1", "file": str(path)}
    if as_json:
        print_json(document)
    else:
        show(config_written_view(document))
    return 0


@command.command(short_help="Print what completes commands, options and names in a shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@options.json_option
@options.speech()
@click.pass_context
def completion(ctx: click.Context, /, shell: str, as_json: bool) -> int:
    """Print a script that completes commands, options, recipes, workspaces and checks in SHELL.

    \b
    bash: eval "$(xpubuild config completion bash)"                 in ~/.bashrc
    zsh:  eval "$(xpubuild config completion zsh)"                  in ~/.zshrc, after compinit
    fish: xpubuild config completion fish > ~/.config/fish/completions/xpubuild.fish
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
