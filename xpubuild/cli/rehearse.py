"""``xpubuild rehearse``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options
from xpubuild.cli.grouped import GroupedCommand

if TYPE_CHECKING:
    from xpubuild.install.options import Policy


@click.command(
    name="rehearse",
    cls=GroupedCommand,
    epilog=options.LIKE_INSTALL,
    short_help="Configure a build without compiling, and report what it would make.",
)
@options.build_options(
    brief=True,
    hidden={
        "--editable", "--portable", "--runtime", "--compile-cache", "--compile-cache-remote", *options.STORE,
    }
)  # fmt: skip
@options.lock_options
@options.option("--dry-run", is_flag=True, help="Show the plan, run nothing.")
@options.json_option
@options.speech("log_format", "quiet", "verbose")
def command(
    dry_run: bool,
    locked: bool,
    lock_file: Path | None,
    lock_policy: Policy,
    as_json: bool,
    log_format: str | None,
    quiet: bool,
    verbose: bool,
    **build: Any,
) -> int:
    """Prepare RECIPE as install does (sources, environment), run PyTorch's own configure step, and stop.

    The report shows the verdict of the XPU gate, the switches that CMake turned on and off, and the GPUs for
    which each group of SYCL files would be compiled. Nothing is compiled. An install in the same workspace
    keeps environment and sources, and configures again.
    """
    import functools

    from xpubuild.cli.plan import show_plan
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.errors import XpuBuildError
    from xpubuild.install.install import prepare_as_asked
    from xpubuild.install.options import LockOptions, Options
    from xpubuild.install.rehearse import planned, rehearse
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.run_views import rehearsal_view
    from xpubuild.ui.sinks import make_sink
    from xpubuild.ui.step_summary import summarise

    cancel = Cancel()
    build["editable"] = build["portable"] = False
    with cancel_on_signals(cancel):
        lock = LockOptions(locked, lock_file, lock_policy)
        telling = functools.partial(make_sink, log_format, quiet=quiet, verbose=verbose)
        prepared = prepare_as_asked(Options(**build, telling=telling), lock, cancel=cancel)
        if dry_run:
            return show_plan(planned(prepared), "json" if as_json else "table")
        sink = telling()
        try:
            report = rehearse(prepared, sink=sink, cancel=cancel)
        except XpuBuildError as error:
            if error.document is not None:
                summarise("xpubuild rehearse", rehearsal_view(error.document))
                if not as_json:
                    show(rehearsal_view(error.document))
            raise
        finally:
            sink.close()
    view = rehearsal_view(report)
    summarise("xpubuild rehearse", view)
    if as_json:
        print_json(report)
    else:
        show(view)
    return 0
