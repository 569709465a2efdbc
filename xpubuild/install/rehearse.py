"""``rehearse`` as a library: sources, environment and the configure step for real, then a report."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.engine.events import Sink
from xpubuild.engine.process import Cancel
from xpubuild.engine.runner import run_plan
from xpubuild.errors import InterruptedByUserError
from xpubuild.install.install import entered
from xpubuild.install.prepare import Prepared
from xpubuild.install.rehearsal import Rehearsal, rehearsal
from xpubuild.install.rehearsal_report import make_report
from xpubuild.supply.git.built import add_made

#: Sources, environment and what CMake generates; the recipe's own number is that of a whole build.
_DISK_GIB = 8.0
_REHEARSED = "CMakeCache.rehearsed.txt"


def planned(prepared: Prepared) -> tuple[Prepared, Rehearsal]:
    """Return the part of a plan that a rehearsal runs.

    Raises:
        UsageError: the plan does not build PyTorch from source.
    """
    what = rehearsal(prepared.context, prepared.plan)
    return replace(prepared, plan=what.plan, disk_gib=min(prepared.disk_gib, _DISK_GIB)), what


def rehearse(prepared: Prepared, *, sink: Sink, cancel: Cancel, patience_s: float = 10.0) -> dict[str, Any]:
    """Run a plan up to the configuration of PyTorch, and return the report.

    Raises:
        NoXpuError: the configuration lost XPU; ``document`` of the error is the report.
        XpuBuildError: what else went wrong, with the report where CMake ran.
    """
    part, what = planned(prepared)
    with entered(part, "rehearse", sink=sink, cancel=cancel, patience_s=patience_s) as (lock, journal, _):
        # A configuration is what this machine is now: an earlier one says nothing about it.
        journal.forget([what.step], removed=False)
        outcome = run_plan(what.plan, journal, sink=sink, cancel=cancel, lock_fd=lock.fd)
        error = outcome.errors[0] if outcome.errors else None
        configured = journal.record(what.step) is not None
        report = make_report(part, what, journal, error)
        _set_aside(Path(what.folders[0]))
    if error is not None:
        if configured and not isinstance(error, InterruptedByUserError):
            error.document = report
        raise error
    return report


def _set_aside(build: Path) -> None:
    """Let the next build in PyTorch's own build folder configure again, with its own options.

    Its setup.py does not run CMake where there is a cache (pytorch/pytorch tools/setup_helpers/cmake.py).
    """
    with contextlib.suppress(FileNotFoundError):
        (build / "CMakeCache.txt").replace(build / _REHEARSED)
        add_made(build.parent, build / _REHEARSED)
