"""``xpubuild install``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from xpubuild.cli import options
from xpubuild.cli.grouped import GroupedCommand

if TYPE_CHECKING:
    from xpubuild.install.options import Policy


class _Seconds(click.FloatRange):
    name = "number of seconds"


@click.command(name="install", cls=GroupedCommand, short_help="Build and verify a recipe in a workspace.")
@options.build_options()
@options.lock_options
@options.path_option(
    "--wheel-dir",
    default=None,
    help="Also fill this folder with all wheels that are needed to install the result elsewhere.",
)
@options.module_options
@options.option("--until", default=None, metavar="STEP", help="Stop after this step.")
@options.option("--dry-run", is_flag=True, help="Show the plan, run nothing.")
@options.option(
    "--lock-timeout",
    type=_Seconds(min=0),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds to wait for another process that uses the workspace (not about lock files).",
)
@options.json_option
@options.speech("log_format", "quiet", "verbose")
def command(
    wheel_dir: Path | None,
    module_dir: Path | None,
    module_format: str,
    depends_on: tuple[str, ...],
    until: str | None,
    dry_run: bool,
    lock_timeout: float,
    locked: bool,
    lock_file: Path | None,
    lock_policy: Policy,
    as_json: bool,
    log_format: str | None,
    quiet: bool,
    verbose: bool,
    **build: Any,
) -> int:
    """Build RECIPE (a name, a file or a lock) in a workspace and verify the result.

    Without RECIPE, builds the newest release that this host can build or, in an activated workspace, the
    recipe of that workspace.

    To resume after a failure or an interruption, run the same command again: finished steps are kept.
    """
    import functools

    from xpubuild.cli.plan import show_plan
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.install.install import apply, check_until, prepare_as_asked
    from xpubuild.install.modulefiles import Modules
    from xpubuild.install.options import LockOptions, Options
    from xpubuild.ui.console import print_json, show
    from xpubuild.ui.run_views import final_view
    from xpubuild.ui.sinks import make_sink
    from xpubuild.ui.step_summary import summarise

    cancel = Cancel()
    with cancel_on_signals(cancel):
        lock = LockOptions(locked, lock_file, lock_policy)
        telling = functools.partial(make_sink, log_format, quiet=quiet, verbose=verbose)
        prepared = prepare_as_asked(Options(**build, telling=telling), lock, cancel=cancel)
        if dry_run:
            check_until(prepared.plan, until)
            return show_plan(prepared, "json" if as_json else "table", until)
        modules = Modules(module_dir, module_format, depends_on) if module_dir else None
        sink = telling()
        try:
            receipt = apply(
                prepared, sink=sink, cancel=cancel, until=until, patience_s=lock_timeout,
                wheel_dir=wheel_dir, modules=modules,
            )  # fmt: skip
        finally:
            sink.close()
    view = final_view(receipt)
    summarise(f"xpubuild install {receipt['recipe']}", view)
    if as_json:
        print_json(receipt)
    elif not quiet:
        show(view)
    return 0
