"""``xpubuild rehearse``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.install.options import Policy


@options.command("rehearse")
def command(dry_run: bool, locked: bool, lock_file: Path | None, lock_policy: Policy, **build: Any) -> int:
    """Prepare RECIPE as install does (sources, environment), run PyTorch's own configure step, and stop.

    The report shows the verdict of the XPU gate, the switches that CMake turned on and off, and the GPUs for
    which each group of SYCL files would be compiled. Nothing is compiled. An install in the same workspace
    keeps environment and sources, and configures again.
    """
    from xpubuild.cli.plan import show_plan
    from xpubuild.errors import XpuBuildError
    from xpubuild.install.install import prepare_as_asked
    from xpubuild.install.options import LockOptions, Options
    from xpubuild.install.rehearse import planned, rehearse
    from xpubuild.ui.console import show, summarise
    from xpubuild.ui.run_views import rehearsal_view

    build["editable"] = build["portable"] = False
    with options.interruptible() as cancel:
        lock = LockOptions(locked, lock_file, lock_policy)
        prepared = prepare_as_asked(Options(**build, telling=options.new_sink), lock, cancel=cancel)
        if dry_run:
            return show_plan(planned(prepared), "table")
        with options.new_sink() as sink:
            try:
                report = rehearse(prepared, sink=sink, cancel=cancel)
            except XpuBuildError as error:
                if error.document is not None:
                    summarise("xpubuild rehearse", rehearsal_view(error.document))
                    if not options.speech().as_json:
                        show(rehearsal_view(error.document))
                raise
    summarise("xpubuild rehearse", rehearsal_view(report))
    return options.answer(report, rehearsal_view)
