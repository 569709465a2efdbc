"""``xpubuild lock``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xpubuild.cli import options


@click.command(name="lock", short_help="Write the closed lock of a recipe.")
@options.build_options
@options.option(
    "-o", "--output", default=None, metavar="FILE", envvar="XPUBUILD_LOCK_OUTPUT",
    help="Where to write it (default: RECIPE.lock.yaml in this folder); - for standard output.",
)  # fmt: skip
@options.json_option
@options.quiet_option
def command(output: str | None, as_json: bool, quiet: bool, **build: Any) -> int:
    """Write down every input of a build of RECIPE: commits, submodules, hashes, flags, this machine.

    What the sources ask for can only be read in them, so they are fetched into the user's cache. Commit the
    file beside your recipe; 'xpubuild verify-lock' and 'install --locked' hold it against what there is.
    """
    import sys

    from xpubuild.build.conda_gather import file_name
    from xpubuild.build.gather import PlanOptions, git_store, prepare
    from xpubuild.build.lock_file import Written, write_lock
    from xpubuild.build.locking import make_lock
    from xpubuild.build.open_wheels import open_hashes
    from xpubuild.engine.files import write_atomic
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.errors import UsageError
    from xpubuild.lock.canonical import dump
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.lock_view import differences_view, progress, written_view
    from xpubuild.ui.sinks import make_sink

    if output == "-" and as_json:
        raise UsageError("--json and '-o -' both want standard output", fix="give --output a file")
    cancel, report = Cancel(), progress(quiet=quiet)

    with cancel_on_signals(cancel):
        asked = PlanOptions(**build, report=report, telling=lambda: make_sink(None, quiet=quiet))
        prepared = prepare(asked, cancel=cancel)
        store = git_store(prepared.facts, cancel=cancel)
        hashes = open_hashes(prepared.context, report=report, cancel=cancel)
        lock = make_lock(prepared, store=store, report=report, wheel_hashes=hashes)
    if output == "-":
        sys.stdout.write(dump(lock))
        return 0
    path = Path(output or f"{lock.recipe.name}.lock.yaml").expanduser().absolute()
    written: Written = write_lock(lock, path)
    if prepared.facts.conda_lock is not None:
        # The lock names the packages; their addresses are in conda-lock's own file, which the tools read.
        write_atomic(path.with_name(file_name(lock.recipe.name)), prepared.facts.conda_lock.encode())
    document = written.document()
    if written.problem:
        report(f"the file that was there is replaced: {written.problem}")
    if not quiet:
        show(differences_view(document["differences"], "Changed"), sys.stderr)
    if as_json:
        print_json(document)
    elif not quiet:
        show(written_view(document))
    return 0
