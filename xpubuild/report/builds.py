"""Finds the build folders of ninja in a workspace, and which step ran ninja there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from xpubuild.report.model import NinjaBuild
from xpubuild.report.ninja_log import NinjaLog, find, read
from xpubuild.workspace.layout import Layout

#: Seconds by which ninja's times and those of the journal may differ.
_TOLERANCE_S = 2.0


#: Step, when something of it ran: from, to (seconds since the epoch).
Ran = tuple[str, float, float]


def ninja_builds(layout: Layout, ran: Sequence[Ran]) -> tuple[NinjaBuild, ...]:
    """Return what ninja recorded in ``build`` and in the build folders of checkouts, in order of time."""
    found = []
    for path in find(_places(layout)):
        with contextlib.suppress(OSError):
            log = read(path)
            if log is not None:
                found.append(_placed(path.parent, log, layout, ran))
    return tuple(sorted(found, key=lambda build: (build.started or 0.0, build.folder)))


def _places(layout: Layout) -> Iterator[Path]:
    yield layout.build
    # setup.py of PyTorch builds in its checkout.
    yield from layout.src.glob("*/build*")


def _placed(folder: Path, log: NinjaLog, layout: Layout, ran: Sequence[Ran]) -> NinjaBuild:
    place = folder.relative_to(layout.root)
    steps = [step for step, start, end in ran if _during(log, start, end)]
    # Two components may be built at the same time: the folder has the name of its own.
    steps.sort(key=lambda step: step.partition(".")[0] in place.parts)
    if not steps:
        return NinjaBuild(str(place), "", None, log.span_s, log.edges)
    return NinjaBuild(str(place), steps[-1], log.began, log.span_s, log.edges)


def _during(log: NinjaLog, start: float, end: float) -> bool:
    return start - _TOLERANCE_S <= log.began and log.began + log.span_s <= end + _TOLERANCE_S
