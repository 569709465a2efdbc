"""``xpubuild lock``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xpubuild.cli import options


@options.command("lock")
def command(output: str | None, **build: Any) -> int:
    """Record every input of a build of RECIPE: commits, submodules, hashes, flags, this machine.

    Some inputs are only known from the sources, so the sources are fetched into the user's cache. Commit the
    lock next to your recipe; 'xpubuild check LOCK' checks it and 'xpubuild install --locked' builds from it.
    """
    import sys

    from xpubuild.engine.files import write_atomic
    from xpubuild.errors import UsageError
    from xpubuild.install.conda_environment import file_name
    from xpubuild.install.lock import make_lock
    from xpubuild.install.lock_file import dump, write_lock
    from xpubuild.install.options import Options
    from xpubuild.install.resolve import prepare
    from xpubuild.ui.console import show, write_out
    from xpubuild.ui.supply_views import differences_view, fetch_progress, lock_written_view

    said = options.speech()
    if output == "-" and said.as_json:
        raise UsageError("--json and '-o -' both write to standard output", fix="use --output FILE")
    report = fetch_progress(quiet=said.quiet)
    with options.interruptible() as cancel:
        prepared = prepare(Options(**build, report=report, telling=options.new_sink), cancel=cancel)
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
    if not said.quiet:
        show(differences_view(document["differences"], "Changed"), sys.stderr)
    return options.answer(document, lock_written_view, silent=said.quiet)
