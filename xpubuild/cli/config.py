"""``xpubuild config``: show, check and write configuration files."""

from __future__ import annotations

import os
from pathlib import Path

import click

from xpubuild.cli import options

_VARIABLE = "_XPUBUILD_COMPLETE"


def _config(recipe: str | None, all_: bool) -> int:
    """Show each setting that a file or the environment makes, with its value and where it comes from.

    Files, the later one wins: the site's (xpubuild/config.toml in XDG_CONFIG_DIRS), yours (in
    XDG_CONFIG_HOME), the project's (xpubuild.toml beside a recipe). The environment (XPUBUILD_<OPTION>) and
    options win over all of them.
    """
    if click.get_current_context().invoked_subcommand is not None:
        return 0
    from xpubuild.cli.configuration import load
    from xpubuild.cli.settings import config_document
    from xpubuild.engine.redact import Redactor
    from xpubuild.ui.views import config_view

    found = config_document(load(os.environ, recipe), os.environ, recipe, everything=all_)
    return options.answer(Redactor.from_environment(os.environ).tree(found), config_view)


command = options.group("config", _config, invoke_without_command=True)


@options.command("config check", parent=command)
def check(file: tuple[str, ...]) -> int:
    """Check FILEs (default: the site's and yours): each error with its line and value. Exits with code 20.

    A file with the name xpubuild.toml is checked as a project's, which may set less than the others.
    """
    from xpubuild.cli.settings import check_document
    from xpubuild.engine.redact import Redactor
    from xpubuild.errors import RecipeError
    from xpubuild.ui.views import config_check_view

    found = check_document([Path(item) for item in file], os.environ)
    options.answer(Redactor.from_environment(os.environ).tree(found), config_check_view)
    return 0 if found["status"] == "ok" else RecipeError.exit_code


@options.command("config init", parent=command)
def init(output: Path | None) -> int:
    """Write a configuration file that lists every setting as a comment, and changes nothing by itself."""
    from xpubuild.cli.configuration import PROJECT_FILE, user_file
    from xpubuild.cli.settings import template, write_new
    from xpubuild.ui.views import config_written_view

    path = output or user_file(os.environ)
    write_new(path, template(project=path.name == PROJECT_FILE))
    return options.answer({"schema": "xpubuild.config-init/1", "file": str(path)}, config_written_view)


@options.command("config completion", parent=command)
def completion(shell: str) -> int:
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
    maker = kind(click.get_current_context().find_root().command, {}, "xpubuild", _VARIABLE)
    text = maker.source_template % maker.source_vars() + "\n"
    if options.speech().as_json:
        print_json({"schema": "xpubuild.completion/1", "shell": shell, "script": text})
    else:
        write_out(text)
    return 0
