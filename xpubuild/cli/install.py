"""``xpubuild install``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.cli import options

if TYPE_CHECKING:
    from xpubuild.install.options import Policy


@options.command("install")
def command(
    wheel_dir: Path | None, module_dir: Path | None, module_format: str, depends_on: tuple[str, ...],
    until: str | None, dry_run: bool, lock_timeout: float,
    locked: bool, lock_file: Path | None, lock_policy: Policy, **build: Any,
) -> int:  # fmt: skip
    """Build RECIPE (a name, a file or a lock) in a workspace and verify the result.

    Without RECIPE, builds the newest release that this host can build or, in an activated workspace, the
    recipe of that workspace.

    To resume after a failure or an interruption, run the same command again: finished steps are kept.
    """
    from xpubuild.cli.plan import show_plan
    from xpubuild.install.install import apply, check_until, prepare_as_asked
    from xpubuild.install.modulefiles import Modules
    from xpubuild.install.options import LockOptions, Options
    from xpubuild.ui.console import summarise
    from xpubuild.ui.run_views import final_view

    with options.interruptible() as cancel:
        lock = LockOptions(locked, lock_file, lock_policy)
        prepared = prepare_as_asked(Options(**build, telling=options.new_sink), lock, cancel=cancel)
        if dry_run:
            check_until(prepared.plan, until)
            return show_plan(prepared, "table", until)
        modules = Modules(module_dir, module_format, depends_on) if module_dir else None
        with options.new_sink() as sink:
            receipt = apply(
                prepared, sink=sink, cancel=cancel, until=until, patience_s=lock_timeout,
                wheel_dir=wheel_dir, modules=modules,
            )  # fmt: skip
    summarise(f"xpubuild install {receipt['recipe']}", final_view(receipt))
    return options.answer(receipt, final_view, silent=options.speech().quiet)
