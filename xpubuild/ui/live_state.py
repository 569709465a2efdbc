"""The state of a run for the live picture: events in, the state of every step out. No drawing here."""

from __future__ import annotations

from dataclasses import dataclass, field

from xpubuild.engine.events import (
    Event,
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)

PENDING = "pending"
RUNNING = "running"
DONE = "done"
UP_TO_DATE = "up-to-date"
FAILED = "failed"
CANCELLED = "cancelled"


@dataclass
class StepView:
    """One step. ``began`` and ``progress.time`` are seconds since the epoch, ``duration_s`` is final."""

    id: str
    title: str
    state: str = PENDING
    began: float = 0.0
    duration_s: float = 0.0
    peak_bytes: int = 0
    detail: str = ""
    log: str = ""
    progress: StepProgress | None = None

    @property
    def two_lines(self) -> bool:
        """Whether there is a second line to show: what it does now, or where its log is."""
        return self.state == RUNNING or (self.state == FAILED and bool(self.log))

    @property
    def finished_well(self) -> bool:
        """Whether nothing is left to do for this step."""
        return self.state in (DONE, UP_TO_DATE)


@dataclass
class RunView:
    """The whole run; ``steps`` keeps the plan's order."""

    recipe: str = ""
    workspace: str = ""
    began: float | None = None
    ended: RunFinished | None = None
    steps: dict[str, StepView] = field(default_factory=dict)
    forecast: RunForecast | None = None

    def apply(self, event: Event) -> None:
        """Take one event."""
        if self.began is None:
            self.began = event.time
        match event:
            case RunStarted():
                self._start(event)
            case StepStarted():
                self._start_step(event)
            case StepProgress():
                self._progress(event)
            case StepFinished():
                self._finish_step(event)
            case RunForecast():
                self.forecast = event
            case RunFinished():
                self.ended = event
            case Notice() | _:
                pass

    def break_off(self, now: float) -> None:
        """Mark steps that still run as stopped: the run ended without reporting them."""
        for step in self.steps.values():
            if step.state == RUNNING:
                step.state, step.duration_s = CANCELLED, max(0.0, now - step.began)

    def count(self, *states: str) -> int:
        """Return how many steps are in one of the states."""
        return sum(step.state in states for step in self.steps.values())

    def _start(self, event: RunStarted) -> None:
        self.recipe, self.workspace, self.began = event.recipe, event.workspace, event.time
        for identifier, title in event.steps:
            state = UP_TO_DATE if identifier in event.done else PENDING
            self.steps.setdefault(identifier, StepView(identifier, title, state))

    def _step(self, identifier: str, title: str = "") -> StepView:
        return self.steps.setdefault(identifier, StepView(identifier, title))

    def _start_step(self, event: StepStarted) -> None:
        step = self._step(event.step, event.title)
        step.state, step.began, step.log, step.detail = RUNNING, event.time, event.log, event.reason
        step.progress = None

    def _progress(self, event: StepProgress) -> None:
        step = self._step(event.step)
        if step.state == PENDING:
            step.state, step.began = RUNNING, event.time
        step.progress = event

    def _finish_step(self, event: StepFinished) -> None:
        step = self._step(event.step, event.title)
        step.state, step.duration_s, step.detail = event.status, event.duration_s, event.detail
        step.peak_bytes, step.progress = event.peak_bytes, None
