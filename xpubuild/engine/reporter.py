"""Progress of a fetch as the events that every sink understands."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xpubuild.engine.events import (
    Notice,
    RunFinished,
    RunStarted,
    Sink,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.engine.progress import ProgressMeter
from xpubuild.engine.watch import Cancel
from xpubuild.errors import InterruptedByUserError

_SHORTEST_GAP_S = 0.2


@dataclass
class Teller:
    """Emits the events of one run. Its methods may be called from several threads.

    Where ``cancel`` is passed, counting stops when it is set: for long reading and writing in this process.
    """

    sink: Sink
    step: str = ""
    cancel: Cancel | None = None
    _began: float = field(default_factory=time.monotonic)
    _step_began: float = 0.0
    _done: int = 0
    _total: int = 0
    _told: float = 0.0
    _meter: ProgressMeter = field(default_factory=ProgressMeter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def run(self, recipe: str, place: str, steps: Sequence[tuple[str, str]]) -> Iterator[None]:
        """Report that a run begins, and how it ended."""
        self.sink.emit(RunStarted(time.time(), recipe, place, tuple(steps), ()))
        status = "failed"
        try:
            yield
            status = "ok"
        except InterruptedByUserError:
            status = "cancelled"
            raise
        finally:
            self.sink.emit(RunFinished(time.time(), status, time.monotonic() - self._began))

    @contextlib.contextmanager
    def doing(self, step: str, title: str) -> Iterator[None]:
        """Report that a step begins, and how it ended."""
        self.step, self._step_began, self._meter = step, time.monotonic(), ProgressMeter()
        self._done = self._total = 0
        self.sink.emit(StepStarted(time.time(), step, title, ""))
        status = "failed"
        try:
            yield
            status = "done"
        except InterruptedByUserError:
            status = "cancelled"
            raise
        finally:
            took = time.monotonic() - self._step_began
            self.sink.emit(StepFinished(time.time(), step, title, status, took))

    def line(self, text: str) -> None:
        """Report one line of git, and the progress in it."""
        with self._lock:
            self.sink.emit(StepOutput(time.time(), self.step, text))
            found = self._meter.feed(text)
            if found is not None:
                self.sink.emit(
                    StepProgress(
                        time.time(), self.step, found.done, found.total, found.unit, found.rate, found.eta_s,
                        found.detail,
                    )
                )  # fmt: skip

    def expect(self, size: int) -> None:
        """Report how many bytes the step will process."""
        self._done, self._total, self._step_began = 0, size, time.monotonic()

    def count(self, size: int, detail: str = "") -> None:
        """Report that ``size`` more bytes were processed; a negative number subtracts.

        Raises:
            InterruptedByUserError: ``cancel`` was set.
        """
        if self.cancel is not None:
            self.cancel.stop_here()
        with self._lock:
            self._done += size
            now = time.monotonic()
            if now - self._told < _SHORTEST_GAP_S and self._done < self._total:
                return
            self._told = now
            total = max(self._total, self._done)
            rate = self._done / max(now - self._step_began, 1e-6)
            left = (total - self._done) / rate if rate > 0 else 0.0
            self.sink.emit(
                StepProgress(time.time(), self.step, self._done, total, "bytes", rate, left, detail)
            )

    def notice(self, text: str, level: str = "info") -> None:
        """Report a notice to the user."""
        self.sink.emit(Notice(time.time(), level, text))
