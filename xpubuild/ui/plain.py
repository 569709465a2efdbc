"""The sink for pipes, files and CI: whole lines with the time since the start, never a carriage return."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from xpubuild.engine.events import (
    Event,
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.ui import format as show
from xpubuild.ui import wording
from xpubuild.ui.level import Level, shown
from xpubuild.ui.terminal import Terminal, clean, one_line

# CI services end a job that says nothing for 10 minutes, and linking device code can take longer than that.
_SILENCE_S = 60.0
_COLORS = {"done": "green", "failed": "red", "ok": "green", "warning": "yellow", "error": "red"}


@dataclass
class _Pace:
    """When a running step spoke last. A long step speaks less often: every 10 s at first, then every 60 s."""

    began: float
    spoke: float
    tenth: int = 0
    detail: str = ""

    def due(self, event: StepProgress) -> bool:
        passed = event.time - self.spoke
        tenth = wording.percent(event) // 10
        crossed = tenth > self.tenth
        self.tenth = min(self.tenth, tenth)
        if passed >= min(max((event.time - self.began) / 10, 10.0), 60.0) or (crossed and passed >= 1.0):
            self.tenth = tenth
            return True
        return False


class PlainSink:
    """Writes events as lines. ``clock`` returns the time that events carry: seconds since the epoch."""

    #: Seconds between calls of ``tick``.
    period_s = 5.0

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        self.terminal = terminal
        self.level = level
        self._clock = clock
        self._began: float | None = None
        self._running: dict[str, _Pace] = {}
        self._logs: dict[str, str] = {}
        self._next_forecast = 0.0

    def emit(self, event: Event) -> None:
        """Take one event."""
        if self._began is None:
            self._began = event.time
        self._note(event)
        if shown(event, self.level):
            self._tell(event)

    def tick(self) -> None:
        """Say that a step still runs when it has been silent for a minute."""
        now = self._clock()
        for step, pace in self._running.items():
            if now - pace.spoke >= _SILENCE_S and self.level is not Level.QUIET:
                pace.spoke = now
                detail = f": {pace.detail}" if pace.detail else ""
                self.line(
                    now, one_line(f"{step}: still running after {show.duration(now - pace.began)}{detail}")
                )

    def close(self) -> None:
        """Nothing to put back: every line is written when it is known."""

    def line(self, at: float, text: str, *styles: str) -> None:
        """Write text that may have several lines, each behind the time since the start."""
        stamp = self.stamp(at)
        body = clean(text).rstrip("\n").split("\n")
        lines = [self.terminal.paint(f"{stamp} {part}", *styles) for part in body]
        self.terminal.write("\n".join(lines) + "\n")

    def stamp(self, at: float) -> str:
        """Return the time since the start, in brackets."""
        return f"[{show.clock(at - (self._began if self._began is not None else at))}]"

    def log_of(self, step: str) -> str:
        """Return the log that the step named when it began."""
        return self._logs.get(step, "")

    def _note(self, event: Event) -> None:
        if isinstance(event, StepStarted):
            self._running[event.step] = _Pace(began=event.time, spoke=event.time)
            self._logs[event.step] = event.log
        elif isinstance(event, StepFinished):
            self._running.pop(event.step, None)
        elif isinstance(event, StepProgress) and event.step in self._running:
            self._running[event.step].detail = event.detail

    def _tell(self, event: Event) -> None:
        match event:
            case RunStarted():
                self.line(event.time, wording.run_started(event), "bold")
            case StepStarted():
                self.line(event.time, wording.step_started(event))
            case StepOutput():
                self.line(event.time, f"{event.step} | {one_line(event.line)}")
            case StepProgress():
                self._tell_progress(event)
            case RunForecast():
                self._tell_forecast(event)
            case StepFinished():
                self.step_finished(event)
            case Notice():
                self.notice(event)
            case RunFinished():
                self.line(
                    event.time, wording.run_finished(event), "bold", _COLORS.get(event.status, "yellow")
                )

    def _tell_progress(self, event: StepProgress) -> None:
        pace = self._running.setdefault(event.step, _Pace(began=event.time, spoke=event.time))
        if pace.due(event):
            pace.spoke = event.time
            self.line(event.time, wording.progress(event))

    def _tell_forecast(self, event: RunForecast) -> None:
        """Tell what is left at first, and then rarely: the time since is a tenth of what was left."""
        if event.time < self._next_forecast:
            return
        text = wording.forecast(event)
        if text:
            self._next_forecast = event.time + max(_SILENCE_S, event.left_s / 10)
            self.line(event.time, text)

    def step_finished(self, event: StepFinished) -> None:
        """Tell how a step ended."""
        styles = (_COLORS[event.status],) if event.status in _COLORS else ()
        self.line(event.time, wording.step_finished(event, self.log_of(event.step)), *styles)

    def notice(self, event: Notice) -> None:
        """Tell a notice."""
        styles = (_COLORS[event.level],) if event.level in _COLORS else ()
        self.line(event.time, wording.notice(event), *styles)
