"""Finds the build folders of ninja in a workspace, and which step ran ninja there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from xpubuild.workspace.layout import Layout
from xpubuild.workspace.ninja_log import NinjaRun, find, read
from xpubuild.workspace.report_model import NinjaBuild

#: Seconds by which ninja's times and those of the journal may differ.
_TOLERANCE_S = 2.0


#: Step, when something of it ran: from, to (seconds since the epoch).
Ran = tuple[str, float, float]


def ninja_builds(layout: Layout, ran: Sequence[Ran]) -> tuple[NinjaBuild, ...]:
    """Return what ninja recorded in ``build`` and in the build folders of checkouts, in order of time."""
    found = []
    for path in find(_places(layout)):
        with contextlib.suppress(OSError):
            place = path.parent.relative_to(layout.root)
            found += [_placed(place, run, ran) for run in read(path)]
    return tuple(sorted(found, key=lambda build: (build.started or 0.0, build.folder)))


def _places(layout: Layout) -> Iterator[Path]:
    yield layout.build
    # setup.py of PyTorch builds in its checkout.
    yield from layout.src.glob("*/build*")


def _placed(place: Path, run: NinjaRun, ran: Sequence[Ran]) -> NinjaBuild:
    began, folder = run.began, str(place)
    if began is None:
        return NinjaBuild(folder, "", None, run.span_s, run.edges)
    # Two components may be built at the same time: the folder has the name of its own.
    fits = [
        (_outside(began, began + run.span_s, start, end), step.partition(".")[0] not in place.parts, step)
        for step, start, end in ran
    ]
    outside, _, step = min(fits, default=(_TOLERANCE_S, True, ""))
    if outside >= _TOLERANCE_S:
        return NinjaBuild(folder, "", None, run.span_s, run.edges)
    return NinjaBuild(folder, step, began, run.span_s, run.edges)


def _outside(began: float, ended: float, start: float, end: float) -> float:
    """Return for how many seconds ninja ran outside of a stretch of time, to a tenth."""
    return round(max(0.0, start - began) + max(0.0, ended - end), 1)
