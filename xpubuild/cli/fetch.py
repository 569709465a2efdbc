"""``xpubuild fetch``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from xpubuild.cli import options


@options.command("fetch")
def command(for_python: str | None, dry_run: bool, mirror: Any, offline: bool, **build: Any) -> int:
    """Download all sources and packages of RECIPE (a name, a file or a lock) into the folder --mirror DIR.

    Valid files are kept, damaged ones are downloaded again. 'xpubuild install --offline --mirror DIR' then
    builds without a network; 'xpubuild check DIR' hashes what is there.
    """
    from xpubuild.errors import UsageError
    from xpubuild.install.fetch import Fetch
    from xpubuild.install.options import Options
    from xpubuild.install.wanted import wanted
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git
    from xpubuild.ui.supply_views import fetch_view

    if mirror is None:
        raise click.UsageError(
            "fetch needs the folder of a mirror: pass --mirror DIR (or set XPUBUILD_MIRROR)"
        )
    if not isinstance(mirror, Path):
        raise UsageError(
            f"fetch cannot write to {mirror}",
            why="a mirror on a server is read-only; only a folder can be written",
            fix="run fetch with --mirror DIR on the server, or fill a folder here and copy it with rsync",
            commands=("xpubuild fetch RECIPE --mirror DIR",),
        )
    with options.interruptible() as cancel, options.new_sink() as sink:
        git = Git.open()
        stocks = () if build["update"] and not offline else (mirror,)
        store = RepositoryStore(mirror, git, offline=offline, stocks=stocks, cancel=cancel)
        found = wanted(Options(**build), for_python, store=store, cancel=cancel)
        fetch = Fetch(mirror, found, sink, cancel, offline=offline, git=git)
        document = fetch.dry_run() if dry_run else fetch.run()
    return options.answer(document, fetch_view, silent=options.speech().quiet)
