"""What a step will take, and how long steps take together. Pure."""

from __future__ import annotations

import graphlib
from collections.abc import Collection, Mapping, Sequence

from xpubuild.engine.model import Step
from xpubuild.frozen import frozen


@frozen
class Estimate:
    """What a step is expected to take; None where nothing tells."""

    seconds: float | None = None
    download_bytes: int | None = None
    disk_bytes: int | None = None
    source: str = ""
    """What the guess rests on, in words."""


UNKNOWN = Estimate()


@frozen
class Total:
    """What steps are expected to take together; those that nothing tells of count as nothing."""

    seconds: float
    download_bytes: int
    disk_bytes: int
    unknown: tuple[str, ...]
    """Steps of which no time is known."""


def total(steps: Sequence[Step], estimates: Mapping[str, Estimate]) -> Total:
    """Return what the steps that have an estimate take, on the longest way through the plan."""
    wanted = [step.id for step in steps if step.id in estimates]
    seconds = {name: estimates[name].seconds or 0.0 for name in wanted}
    return Total(
        seconds=span({step.id: (*step.needs, *step.after) for step in steps}, seconds),
        download_bytes=sum(estimates[name].download_bytes or 0 for name in wanted),
        disk_bytes=sum(estimates[name].disk_bytes or 0 for name in wanted),
        unknown=tuple(name for name in wanted if estimates[name].seconds is None),
    )


def span(before: Mapping[str, Collection[str]], seconds: Mapping[str, float]) -> float:
    """Return the seconds until all steps are done; ``before`` names for each the steps that come first.

    A step that ``seconds`` lacks takes no time, since it is done already.
    """
    ends: dict[str, float] = {}
    for name in graphlib.TopologicalSorter(before).static_order():
        begin = max((ends[other] for other in before.get(name, ())), default=0.0)
        ends[name] = begin + seconds.get(name, 0.0)
    return max(ends.values(), default=0.0)
