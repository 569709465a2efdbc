"""``xpubuild fetch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options
from xpubuild.cli.grouped import GroupedCommand

if TYPE_CHECKING:
    from xpubuild.supply.depot.location import Location


@click.command(
    name="fetch",
    cls=GroupedCommand,
    epilog=options.LIKE_INSTALL,
    short_help="Download everything that an offline install needs.",
)
@options.build_options(
    brief=True,
    hidden=(
        "--cxx11-abi", "--arch", "--jobs", "--oneapi-root", "--oneapi-mode", "--editable", "--allow-dirty",
        "--extra-path", "--extra-library-path", "--portable", "--runtime", "--compile-cache",
        "--compile-cache-remote", *options.STORE,
    ),
    workspace="Existing workspace whose looked-up commits are used.",
    mirror_help="Folder of the mirror to fill.",
    offline="Download nothing; fail if the mirror does not have everything.",
)  # fmt: skip
@options.option(
    "--for-python",
    default=None,
    metavar="VERSIONS|all",
    help="Python versions to download packages for, such as 3.10,3.11 (default: the one that install uses).",
)
@options.option("--dry-run", is_flag=True, help="List missing files with their sizes, download nothing.")
@options.json_option
@options.speech("log_format", "quiet", "verbose")
def command(
    for_python: str | None,
    dry_run: bool,
    as_json: bool,
    log_format: str | None,
    quiet: bool,
    verbose: bool,
    **build: Any,
) -> int:
    """Download all sources and packages of RECIPE (a name, a file or a lock) into the folder --mirror DIR.

    Valid files are kept, damaged ones are downloaded again. 'xpubuild install --offline --mirror DIR' then
    builds without a network.
    """
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.install.fetch import Fetch
    from xpubuild.install.options import Options
    from xpubuild.install.wanted import wanted
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.sinks import make_sink
    from xpubuild.ui.supply_views import fetch_view

    mirror = _mirror(build.pop("mirror", None))
    cancel, git, offline = Cancel(), Git.open(), bool(build.pop("offline", False))
    with cancel_on_signals(cancel), make_sink(log_format, quiet=quiet, verbose=verbose) as sink:
        stocks = () if build["update"] and not offline else (mirror,)
        store = RepositoryStore(mirror, git, offline=offline, stocks=stocks, cancel=cancel)
        needed = wanted(Options(**build), for_python, store=store, cancel=cancel)
        fetch = Fetch(mirror, needed, sink, cancel, offline=offline, git=git)
        document = fetch.dry_run() if dry_run else fetch.run()
    if as_json:
        print_json(document)
    elif not quiet:
        show(fetch_view(document))
    return 0


def _mirror(given: Path | Location | None) -> Path:
    from xpubuild.errors import UsageError

    if given is None:
        raise click.UsageError(
            "fetch needs the folder of a mirror: pass --mirror DIR (or set XPUBUILD_MIRROR)"
        )
    if not isinstance(given, Path):
        raise UsageError(
            f"fetch cannot write to {given}",
            why="a mirror on a server is read-only; only a folder can be written",
            fix="run fetch with --mirror DIR on the server, or fill a folder here and copy it with rsync",
            commands=("xpubuild fetch RECIPE --mirror DIR",),
        )
    return given
