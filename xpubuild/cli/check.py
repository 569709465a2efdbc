"""``xpubuild check``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from xpubuild.cli import names, options

if TYPE_CHECKING:
    from xpubuild.workspace.check import Check
    from xpubuild.workspace.check_model import Damage, Found


@click.command(name="check", short_help="Hash everything in a workspace; repair what is damaged.")
@click.argument("workspace_or_recipe", required=False, shell_complete=names.workspaces, metavar="[WORKSPACE]")
@options.workspace_option("Folder of the workspace (default: that of WORKSPACE, the active or the only one).")
@options.option("--repair", is_flag=True, help="Make damaged parts anew.", envvar=None)
@options.json_option
@options.speech("log_format", "quiet", "verbose")
def command(
    workspace_or_recipe: str | None,
    workspace: Path | None,
    repair: bool,
    as_json: bool,
    log_format: str | None,
    quiet: bool,
    verbose: bool,
) -> int:
    """Hash all that is installed, built and kept in WORKSPACE: a folder, or the recipe that was built there.

    Installed files are compared with RECORD and with the wheels that were built, wheels with the journal,
    checkouts with their commits, and the repositories that they come from are checked. Files that no
    installed package has are listed; a .pth file with code counts as damage, because Python runs it at
    every start.

    Exits with code 60 if something that was installed or built is damaged, and with 31 if only sources or
    packages that are kept for later installs are damaged. --repair removes damaged parts and makes
    them anew: sources from their commits, everything else with the command of the last install.
    """
    import platformdirs

    from xpubuild.cli.workspace import named
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.sinks import make_sink
    from xpubuild.ui.views import workspace_check_view
    from xpubuild.workspace.check import Check, failure

    root = named(workspace_or_recipe, workspace)
    cancel = Cancel()
    repaired: tuple[Damage, ...] = ()
    cache = platformdirs.user_cache_path("xpubuild")
    with cancel_on_signals(cancel), make_sink(log_format, quiet=quiet, verbose=verbose) as sink:
        check = Check(root, cache, sink, cancel)
        found = check.look()
        if repair and found.damaged:
            repaired = check.repair(found)
    if repaired:
        found = _remade(check, {item.kind for item in repaired})
    document = found.document(str(root), repaired)
    if not as_json and not quiet:
        show(workspace_check_view(document))
    error = failure(found, root, repaired=repair)
    if error is not None:
        error.document = document
        raise error
    if as_json:
        print_json(document)
    return 0


def _remade(check: Check, kinds: set[str]) -> Found:
    """Run the last install again where it has to make something, and look again."""
    import contextlib
    import sys

    from xpubuild.workspace.check_repair import BY_INSTALL

    if kinds & BY_INSTALL:
        # Standard output is for the one document of this command.
        with contextlib.redirect_stdout(sys.stderr):
            _install_again(check.root)
    return check.look()


def _install_again(root: Path) -> None:
    from xpubuild.cli.install import command as install
    from xpubuild.cli.settings import Defaults
    from xpubuild.workspace.check_again import install_words

    words, defaults = install_words(root), Defaults(("install",))
    install.main(args=words, prog_name="xpubuild install", standalone_mode=False, default_map=defaults)
