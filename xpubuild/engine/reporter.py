"""Progress of work in this process as the events that every sink understands."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from xpubuild.engine import events
from xpubuild.engine.process import Cancel
from xpubuild.engine.progress import ProgressMeter
from xpubuild.errors import InterruptedByUserError

_SHORTEST_GAP_S = 0.2


@dataclass
class Teller:
    """Emits the events of one run. Its methods may be called from several threads.

    Where ``cancel`` is passed, counting stops when it is set: for long reading and writing in this process.
    """

    sink: events.Sink
    cancel: Cancel | None = None
    _step: str = ""
    _done: int = 0
    _total: int = 0
    _shown: float = 0.0
    _meter: ProgressMeter = field(default_factory=ProgressMeter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def run(self, recipe: str, place: str, steps: Sequence[tuple[str, str]]) -> Iterator[None]:
        """Report that a run begins, and how it ended."""
        self.sink.emit(events.RunStarted(time.time(), recipe, place, tuple(steps), ()))
        with self._ending("ok", lambda status, took: events.RunFinished(time.time(), status, took)):
            yield

    @contextlib.contextmanager
    def doing(self, step: str, title: str) -> Iterator[None]:
        """Report that a step begins, and how it ended."""
        self._step, self._meter = step, ProgressMeter(step)
        self.expect(0)
        self.sink.emit(events.StepStarted(time.time(), step, title, ""))
        with self._ending(
            "done", lambda status, took: events.StepFinished(time.time(), step, title, status, took)
        ):
            yield

    @contextlib.contextmanager
    def _ending(self, well: str, event: Callable[[str, float], events.Event]) -> Iterator[None]:
        """Report how a block ended, and the seconds that it took."""
        began, status = time.monotonic(), "failed"
        try:
            yield
            status = well
        except InterruptedByUserError:
            status = "cancelled"
            raise
        finally:
            self.sink.emit(event(status, time.monotonic() - began))

    def line(self, text: str) -> None:
        """Report one line of git, and the progress in it."""
        with self._lock:
            self.sink.emit(events.StepOutput(time.time(), self._step, text))
            if (found := self._meter.feed(text)) is not None:
                self.sink.emit(found)

    def expect(self, size: int) -> None:
        """Report how many bytes the step will process."""
        self._done, self._total = 0, size

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
            if now - self._shown < _SHORTEST_GAP_S and self._done < self._total:
                return
            self._shown = now
            total = max(self._total, self._done)
            self.sink.emit(events.StepProgress(time.time(), self._step, self._done, total, "bytes", detail))

    def notice(self, text: str, level: str = "info") -> None:
        """Report a notice to the user."""
        events.notify(self.sink, text, level=level)
