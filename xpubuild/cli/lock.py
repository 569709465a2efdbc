"""``xpubuild lock``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xpubuild.cli import options
from xpubuild.cli.grouped import GroupedCommand


@click.command(
    name="lock",
    cls=GroupedCommand,
    epilog=options.LIKE_INSTALL,
    short_help="Lock every input of a recipe.",
)
@options.build_options(
    brief=True,
    hidden=(
        "--jobs", "--editable", "--allow-dirty", "--portable", "--runtime", "--compile-cache",
        "--compile-cache-remote", *options.STORE,
    ),
    workspace="Existing workspace whose looked-up commits are used.",
)  # fmt: skip
@options.option(
    "-o", "--output", default=None, metavar="FILE", envvar="XPUBUILD_LOCK_OUTPUT",
    help="File to write (default: RECIPE.lock.yaml in the current folder); - for standard output.",
)  # fmt: skip
@options.json_option
@options.speech("quiet")
def command(output: str | None, as_json: bool, quiet: bool, **build: Any) -> int:
    """Record every input of a build of RECIPE: commits, submodules, hashes, flags, this machine.

    Some inputs are only known from the sources, so the sources are fetched into the user's cache. Commit the
    lock next to your recipe; 'xpubuild check LOCK' checks it and 'xpubuild install --locked' builds from it.
    """
    import sys

    from xpubuild.engine.files import write_atomic
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.errors import UsageError
    from xpubuild.install.conda_environment import file_name
    from xpubuild.install.lock import make_lock
    from xpubuild.install.lock_file import dump, write_lock
    from xpubuild.install.options import Options
    from xpubuild.install.resolve import prepare
    from xpubuild.ui.console import print_json, show, write_out
    from xpubuild.ui.supply_views import differences_view, fetch_progress, lock_written_view

    if output == "-" and as_json:
        raise UsageError("--json and '-o -' both write to standard output", fix="use --output FILE")
    cancel, report = Cancel(), fetch_progress(quiet=quiet)

    with cancel_on_signals(cancel):
        asked = Options(**build, report=report, telling=options.new_sink)
        prepared = prepare(asked, cancel=cancel)
        lock = make_lock(prepared, report=report, cancel=cancel)
    if output == "-":
        write_out(dump(lock))
        return 0
    path = Path(output or f"{lock.recipe.name}.lock.yaml").expanduser().absolute()
    document, problem = write_lock(lock, path)
    if prepared.target.conda_lock is not None:
        # The lock names the packages; their addresses are in conda-lock's own file, which the tools read.
        write_atomic(path.with_name(file_name(lock.recipe.name)), prepared.target.conda_lock.encode())
    if problem:
        report(f"the existing file is replaced: {problem}")
    if not quiet:
        show(differences_view(document["differences"], "Changed"), sys.stderr)
    if as_json:
        print_json(document)
    elif not quiet:
        show(lock_written_view(document))
    return 0
