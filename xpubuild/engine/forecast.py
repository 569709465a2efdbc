"""What steps will take, and how long a running plan will take yet: from what they took the last time."""

from __future__ import annotations

import graphlib
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from xpubuild.engine import events
from xpubuild.engine.model import Step
from xpubuild.frozen import frozen

_EVERY_S = 5.0
_SUMS = ("seconds", "download_bytes", "disk_bytes")
_EDGE = re.compile(r"\s*\[[0-9]+/[0-9]+(?:\s[^\]]*)?\]\s*(.*)", re.DOTALL)
_OUTPUT = re.compile(r"\s-o\s+('[^']+'|\"[^\"]+\"|\S+)")


@frozen
class Estimate:
    """What a step is expected to take; None if unknown."""

    seconds: float | None = None
    download_bytes: int | None = None
    disk_bytes: int | None = None
    source: str = ""
    """What the guess rests on, in words."""


@frozen
class Total:
    """What steps are expected to take together, at least: steps of which nothing is known add nothing."""

    seconds: float
    download_bytes: int
    disk_bytes: int
    unknown: tuple[str, ...]
    """Steps of which no time is known."""
    at_least: tuple[str, ...] = ()
    """Fields of this sum in which a step is missing."""


def total(steps: Sequence[Step], estimates: Mapping[str, Estimate]) -> Total:
    """Return what the steps that have an estimate take, on the longest way through the plan."""
    return Total(
        seconds=_span(steps, {name: one.seconds or 0.0 for name, one in estimates.items()}),
        download_bytes=sum(one.download_bytes or 0 for one in estimates.values()),
        disk_bytes=sum(one.disk_bytes or 0 for one in estimates.values()),
        unknown=tuple(name for name, one in estimates.items() if one.seconds is None),
        at_least=tuple(it for it in _SUMS if any(getattr(one, it) is None for one in estimates.values())),
    )


def _span(steps: Sequence[Step], seconds: Mapping[str, float]) -> float:
    """Return the seconds until all steps are done; one that ``seconds`` lacks is done already."""
    before: dict[str, Collection[str]] = {step.id: (*step.needs, *step.after) for step in steps}
    ends: dict[str, float] = {}
    for name in graphlib.TopologicalSorter(before).static_order():
        begin = max((ends[other] for other in before.get(name, ())), default=0.0)
        ends[name] = begin + seconds.get(name, 0.0)
    return max(ends.values(), default=0.0)


def edge_key(output: str) -> str:
    """Return what an output of ninja is called in any build folder: the end of its path."""
    return "/".join(output.strip("'\"").split("/")[-3:])


@dataclass
class _Running:
    """A step that runs since ``began``; ``weights`` are the seconds of its edges the last time."""

    began: float
    expected: float | None
    weights: Mapping[str, float]
    part: float = 0.0
    known: float = 0.0

    def left(self, now: float) -> float | None:
        """Return the seconds to go; what is seen counts by how much of the step is done."""
        passed, rest = max(0.0, now - self.began), max(0.0, 1 - self.part)
        if self.expected is None:
            return passed * rest / self.part if self.part else None
        return rest * (rest * self.expected + passed) if self.part else max(0.0, self.expected - passed)


class Forecaster:
    """A sink that passes events on to ``inner``, and every few seconds what is left of the run.

    ``expected`` holds the steps that are to do, ``weights`` the seconds of each edge of a build last time.
    """

    def __init__(
        self, inner: events.Sink, steps: Sequence[Step], expected: Mapping[str, Estimate],
        weights: Mapping[str, Mapping[str, float]], clock: Callable[[], float] = time.time,
    ) -> None:  # fmt: skip
        self.inner, self.steps, self.weights, self.clock = inner, steps, weights, clock
        self.waiting = dict(expected)
        self.running: dict[str, _Running] = {}
        self._next = 0.0

    def emit(self, event: events.Event) -> None:
        """Take one event."""
        match event:
            case events.StepStarted():
                expected = self.waiting.pop(event.step, Estimate()).seconds
                self.running[event.step] = _Running(event.time, expected, self.weights.get(event.step, {}))
            case events.StepFinished():
                self.waiting.pop(event.step, None)
                self.running.pop(event.step, None)
            case events.StepProgress() if event.unit == "edges" and (step := self.running.get(event.step)):
                whole = sum(step.weights.values())
                by_weight = step.known / whole if step.known and whole else 0.0
                step.part = by_weight or event.done / max(event.total, 1)
            case events.StepOutput() if (step := self.running.get(event.step)) and (
                edge := _EDGE.fullmatch(event.line)
            ):
                # Ninja names an edge by its description, or by its command with ``-v``.
                made = _OUTPUT.search(edge[1])
                name = edge_key(made[1] if made else edge[1].rstrip().rpartition(" ")[2])
                step.known += step.weights.get(name, 0.0)
        self.inner.emit(event)
        if self.running and self.clock() >= self._next:
            self._next = self.clock() + _EVERY_S
            self.inner.emit(self.forecast())

    def close(self) -> None:
        """Close the sink behind."""
        self.inner.close()

    def forecast(self) -> events.RunForecast:
        """Return what is left now."""
        now = self.clock()
        running = {name: step.left(now) for name, step in list(self.running.items())}
        left = {name: guess.seconds for name, guess in list(self.waiting.items())} | running
        return events.RunForecast(
            time=now,
            left_s=_span(self.steps, {name: value or 0.0 for name, value in left.items()}),
            steps=tuple((name, value) for name, value in running.items() if value is not None),
            unknown=tuple(name for name, value in left.items() if value is None),
        )
