"""Tells while a plan runs how long it will take yet: a sink before the sink of a run."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType

from xpubuild.engine.activity import Activity, activity
from xpubuild.engine.edges import Counted, History, edge_of
from xpubuild.engine.estimate import Estimate, span
from xpubuild.engine.events import (
    Event,
    RunForecast,
    Sink,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.engine.model import Step

_EVERY_S = 5.0
#: What was expected counts as much as this part of a build and this many of its edges: the first files are
#: unlike the others, and few of them tell little.
_TRUST_PART, _TRUST_EDGES = 0.1, 10
#: A step that takes longer than expected is taken to need this part of its time again.
_OVERDUE = 0.25
_EDGE = re.compile(r"\s*\[[0-9]+/[0-9]+(?:\s[^\]]*)?\]\s*(.*)", re.DOTALL)


@dataclass
class Pace:
    """How slow a run has been so far: seconds that its steps took, and that they should have taken.

    It counts for a step to come by how long both are: what seconds have shown says little about hours.
    """

    took: float = 0.0
    expected: float = 0.0

    def add(self, took: float, expected: float | None) -> None:
        """Take a step that ended, or that runs for longer than it should."""
        if expected is not None:
            self.took += took
            self.expected += expected

    def of(self, expected: float | None) -> float | None:
        """Return the seconds to expect of a step at this pace."""
        if expected is None:
            return None
        half = expected / 2
        return expected * (self.took + half) / (self.expected + half) if expected > 0 else 0.0


@dataclass
class _Running:
    """A step that runs; times are seconds since the epoch."""

    began: float
    expected: float | None
    counted: Counted
    counting: float | None = None

    def progress(self, event: StepProgress) -> None:
        if self.counting is None or event.done < self.counted.done or self.counted.total == 0:
            self.counting = event.time
        self.counted.done, self.counted.total = event.done, event.total

    def left(self, now: float, pace: Pace) -> float | None:
        """Return the seconds to go; None where nothing tells."""
        passed, expected = max(0.0, now - self.began), pace.of(self.expected)
        if self.counting is not None and self.counted.done > 0:
            passed = max(0.0, now - self.counting)
            return left(self.counted.fraction(), passed, expected, self.counted.total)
        return None if expected is None else max(expected - passed, _OVERDUE * passed)


#: Less than this of the edges tells nothing: no build has as many.
_LEAST = 1e-9


def left(fraction: float, passed_s: float, expected_s: float | None, total: int) -> float | None:
    """Return the seconds to go of ``total`` edges that are done by a fraction after a time.

    What was expected of the whole is taken as a part of the work that was seen before; so a build is not
    judged by its first files, and what is seen counts more and more.
    """
    trust = 0.0 if expected_s is None else _TRUST_PART + _TRUST_EDGES / max(1, total)
    if fraction + trust < _LEAST:
        return None
    return max(0.0, 1.0 - fraction) * (passed_s + trust * (expected_s or 0.0)) / (fraction + trust)


@dataclass
class Forecaster:
    """Passes events on, and adds a ``RunForecast`` every few seconds; a context that ends its thread.

    ``expected`` holds the steps that are to do, ``histories`` the edges of an earlier build of a step.
    """

    inner: Sink
    steps: Sequence[Step]
    expected: Mapping[str, Estimate]
    histories: Mapping[str, History] = field(default_factory=dict)
    clock: Callable[[], float] = time.time
    look: Callable[[], Activity] = activity
    every_s: float = _EVERY_S

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._running: dict[str, _Running] = {}
        self._finished: set[str] = set()
        self._pace = Pace()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._tell_often, name="forecast", daemon=True)

    def __enter__(self) -> Forecaster:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def emit(self, event: Event) -> None:
        """Take one event; may be called from several threads."""
        with self._lock:
            self._take(event)
        self.inner.emit(event)

    def close(self) -> None:
        """Close the sink behind."""
        self.inner.close()

    def _take(self, event: Event) -> None:
        match event:
            case StepStarted():
                guess = self.expected.get(event.step)
                counted = Counted(self.histories.get(event.step))
                self._running[event.step] = _Running(event.time, guess.seconds if guess else None, counted)
            case StepFinished():
                step = self._running.pop(event.step, None)
                self._finished.add(event.step)
                if step is not None and event.status == "done":
                    self._pace.add(event.duration_s, step.expected)
            case StepProgress() if event.unit == "edges" and event.step in self._running:
                self._running[event.step].progress(event)
            case StepOutput() if event.step in self._running:
                found = _EDGE.fullmatch(event.line)
                if found is not None:
                    self._running[event.step].counted.finished(edge_of(found[1]))

    def forecast(self) -> RunForecast:
        """Return what is left now."""
        now, doing = self.clock(), self.look()
        with self._lock:
            pace = replace(self._pace)
            for step in self._running.values():
                if step.counting is None and step.expected is not None:
                    pace.add(passed := max(0.0, now - step.began), min(step.expected, passed))
            running = {name: step.left(now, self._pace) for name, step in self._running.items()}
            to_come = {
                name: pace.of(guess.seconds)
                for name, guess in self.expected.items()
                if name not in running and name not in self._finished
            }
        seconds = {name: value or 0.0 for name, value in {**to_come, **running}.items()}
        return RunForecast(
            time=now,
            left_s=span({step.id: (*step.needs, *step.after) for step in self.steps}, seconds),
            steps=tuple((name, value) for name, value in running.items() if value is not None),
            unknown=tuple(name for name, value in {**running, **to_come}.items() if value is None),
            memory_bytes=doing.memory_bytes,
            longest=tuple((unit.what, round(unit.seconds, 1), unit.memory_bytes) for unit in doing.longest),
        )

    def _tell_often(self) -> None:
        while not self._stop.wait(self.every_s):
            if self._running:
                self.inner.emit(self.forecast())
