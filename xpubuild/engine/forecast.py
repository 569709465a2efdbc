"""Says while a plan runs how long it will take yet, from what its steps took the last time."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType

from xpubuild.engine import events
from xpubuild.engine.activity import Activity, activity
from xpubuild.engine.estimate import Estimate, span
from xpubuild.engine.model import Step

_EVERY_S = 5.0
_EDGE = re.compile(r"\s*\[[0-9]+/[0-9]+(?:\s[^\]]*)?\]\s*(.*)", re.DOTALL)
_OUTPUT = re.compile(r"\s-o\s+('[^']+'|\"[^\"]+\"|\S+)")


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

    def edge(self, text: str) -> None:
        """Take the edge that ninja names: by its description, or by its command with ``-v``."""
        found = _OUTPUT.search(text)
        self.known += self.weights.get(edge_key(found[1] if found else text.rstrip().rpartition(" ")[2]), 0.0)

    def progress(self, done: int, total: int) -> None:
        whole = sum(self.weights.values())
        self.part = self.known / whole if self.known and whole else done / max(total, 1)

    def left(self, now: float) -> float | None:
        """Return the seconds to go; what is seen counts by how much of the step is done."""
        passed, rest = max(0.0, now - self.began), max(0.0, 1 - self.part)
        if self.expected is None:
            return passed * rest / self.part if self.part else None
        return rest * (rest * self.expected + passed) if self.part else max(0.0, self.expected - passed)


@dataclass
class Forecaster:
    """Passes events on, and adds a ``RunForecast`` every few seconds; a context that ends its thread.

    ``expected`` holds the steps that are to do, ``weights`` the seconds of each edge of a build last time.
    """

    inner: events.Sink
    steps: Sequence[Step]
    expected: Mapping[str, Estimate]
    weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    clock: Callable[[], float] = time.time
    look: Callable[[], Activity] = activity
    every_s: float = _EVERY_S

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._running: dict[str, _Running] = {}
        self._finished: set[str] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._emit_often, name="forecast", daemon=True)

    def __enter__(self) -> Forecaster:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def emit(self, event: events.Event) -> None:
        """Take one event; may be called from several threads."""
        with self._lock:
            match event:
                case events.StepStarted():
                    expected = self.expected.get(event.step, Estimate()).seconds
                    weights = self.weights.get(event.step, {})
                    self._running[event.step] = _Running(event.time, expected, weights)
                case events.StepFinished():
                    self._running.pop(event.step, None)
                    self._finished.add(event.step)
                case events.StepProgress() if event.unit == "edges" and event.step in self._running:
                    self._running[event.step].progress(event.done, event.total)
                case events.StepOutput() if event.step in self._running and (
                    found := _EDGE.fullmatch(event.line)
                ):
                    self._running[event.step].edge(found[1])
        self.inner.emit(event)

    def close(self) -> None:
        """Close the sink behind."""
        self.inner.close()

    def forecast(self) -> events.RunForecast:
        """Return what is left now."""
        now, doing = self.clock(), self.look()
        with self._lock:
            running = {name: step.left(now) for name, step in self._running.items()}
            over = self._finished.union(running)
        left = {name: guess.seconds for name, guess in self.expected.items() if name not in over} | running
        before = {step.id: (*step.needs, *step.after) for step in self.steps}
        return events.RunForecast(
            time=now,
            left_s=span(before, {name: value or 0.0 for name, value in left.items()}),
            steps=tuple((name, value) for name, value in running.items() if value is not None),
            unknown=tuple(name for name, value in left.items() if value is None),
            memory_bytes=doing.memory_bytes,
            longest=tuple((unit.what, round(unit.seconds, 1), unit.memory_bytes) for unit in doing.longest),
        )

    def _emit_often(self) -> None:
        while not self._stop.wait(self.every_s):
            if self._running:
                self.inner.emit(self.forecast())
