"""``xpubuild fetch``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.build.fetch import Fetch
    from xpubuild.engine.events import Sink
    from xpubuild.engine.process import Cancel
    from xpubuild.mirror.remote.location import Location


@click.command(name="fetch", short_help="Fill a mirror with everything an offline install needs.")
@options.build_options
@options.option(
    "--for-python",
    default=None,
    metavar="VERSIONS|all",
    help="Python versions to bring packages for, such as 3.10,3.11 (default: the one install takes).",
)
@options.option("--dry-run", is_flag=True, help="List what is missing, with sizes, and bring nothing.")
@options.option("--check", is_flag=True, help="Look at every byte of the mirror and change nothing.")
@options.path_option(
    "--export", "export_to", default=None, metavar="FILE",
    help="Write what RECIPE needs (without one: the whole mirror) to one file.",
)  # fmt: skip
@options.path_option(
    "--import", "import_from", default=None, metavar="FILE", help="Merge an exported file into the mirror."
)
@options.json_option
@options.log_format_option
@options.quiet_option
@options.verbose_option
def command(
    for_python: str | None,
    dry_run: bool,
    check: bool,
    export_to: Path | None,
    import_from: Path | None,
    as_json: bool,
    log_format: str | None,
    quiet: bool,
    verbose: bool,
    **build: Any,
) -> int:
    """Fill the folder --mirror DIR with all that a build of RECIPE (a name, a file or a lock) fetches.

    What is there and sound stays; what is damaged is brought anew. 'install --offline --mirror DIR' then
    needs no network.
    """
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.fetch_view import fetch_view
    from xpubuild.ui.sinks import make_sink

    mirror = _mirror(build.pop("mirror", None))
    chosen = {"dry-run": dry_run, "check": check, "export": export_to, "import": import_from}
    task = Task(
        mirror=mirror,
        action=_one_of([name for name, value in chosen.items() if value]),
        file=export_to or import_from,
        offline=bool(build.pop("offline", False)),
        for_python=for_python,
        build=build,
    )
    cancel = Cancel()
    with cancel_on_signals(cancel), make_sink(log_format, quiet=quiet, verbose=verbose) as sink:
        document = task.run(sink, cancel)
    if as_json:
        print_json(document)
    elif not quiet:
        show(fetch_view(document))
    return 0


@dataclass(frozen=True)
class Task:
    """What the command line asks for."""

    mirror: Path
    action: str
    file: Path | None
    offline: bool
    for_python: str | None
    build: dict[str, Any]

    def run(self, sink: Sink, cancel: Cancel) -> dict[str, Any]:
        """Do it and return the document."""
        from xpubuild.build.carry import check_mirror, export_mirror, import_mirror

        named = self.build["recipe"] is not None
        if self.action == "check":
            fetch = self._fetch(sink, cancel) if named else None
            return check_mirror(self.mirror, sink=sink, fetch=fetch)
        if self.action == "import" and self.file is not None:
            return import_mirror(self.mirror, self.file, sink=sink, cancel=cancel)
        if self.action == "export" and self.file is not None:
            fetch = self._fetch(sink, cancel) if named else None
            return export_mirror(self.mirror, self.file, sink=sink, fetch=fetch)
        fetch = self._fetch(sink, cancel)
        return fetch.dry_run() if self.action == "dry-run" else fetch.run()

    def _fetch(self, sink: Sink, cancel: Cancel) -> Fetch:
        from xpubuild.build.fetch import Fetch
        from xpubuild.build.fetch_inputs import wanted
        from xpubuild.build.gather import PlanOptions
        from xpubuild.source.git import Git
        from xpubuild.source.mirror import MirrorStore

        git = Git.open()
        # Export and check look at what is there: nothing but the mirror is asked for it.
        offline = self.offline or self.action in ("check", "export")
        stocks = () if self.build["update"] and not offline else (self.mirror,)
        store = MirrorStore(self.mirror, git, offline=offline, stocks=stocks, cancel=cancel)
        return Fetch(
            path=self.mirror,
            wanted=wanted(PlanOptions(**self.build), self.for_python, store=store, cancel=cancel),
            sink=sink,
            cancel=cancel,
            offline=offline,
            git=git,
        )


def _mirror(given: Path | Location | None) -> Path:
    from xpubuild.errors import UsageError

    if given is None:
        raise click.UsageError("fetch needs a folder to fill: --mirror DIR (or XPUBUILD_MIRROR)")
    if not isinstance(given, Path):
        raise UsageError(
            f"fetch cannot write to {given}",
            why="a mirror is read over http and ssh, and written as a folder",
            fix="run fetch with --mirror DIR on the machine that serves it, or fill a folder here and import"
            " its export there",
            commands=(
                "xpubuild fetch RECIPE --mirror DIR --export FILE",
                "xpubuild fetch --mirror DIR --import FILE",
            ),
        )
    return given


def _one_of(actions: list[str]) -> str:
    if len(actions) > 1:
        raise click.UsageError(f"--{actions[0]} and --{actions[1]} are two things; give one of them")
    return actions[0] if actions else "fetch"
