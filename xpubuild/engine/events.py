"""What happens during a run, as data. The ui package turns events into pictures; nothing here prints."""

from __future__ import annotations

import re
import time
from dataclasses import asdict
from typing import Any, Protocol

from xpubuild.frozen import frozen

_UPPER = re.compile(r"(?<=.)([A-Z])")


@frozen
class Event:
    """Base of all events; ``time`` is seconds since the epoch."""

    time: float

    def to_json(self) -> dict[str, Any]:
        """Return the event for a JSON lines log; ``event`` is the class name in kebab case."""
        return {"event": self.kind(), **asdict(self)}

    @classmethod
    def kind(cls) -> str:
        """Return the name of the class in kebab case."""
        return _UPPER.sub(r"-\1", cls.__name__).lower()


@frozen
class RunStarted(Event):
    """A plan begins: ``steps`` is (id, title) in order, ``done`` the ids that need no work."""

    recipe: str
    workspace: str
    steps: tuple[tuple[str, str], ...]
    done: tuple[str, ...]


@frozen
class StepStarted(Event):
    """A step begins to run; ``reason`` says why it is not up to date."""

    step: str
    title: str
    log: str
    reason: str = ""


@frozen
class StepOutput(Event):
    """One line a command printed, secrets removed."""

    step: str
    line: str


@frozen
class StepProgress(Event):
    """Counted progress inside a step; ``total`` is 0 where nothing is counted."""

    step: str
    done: int
    total: int
    unit: str
    detail: str = ""


@frozen
class RunForecast(Event):
    """What is left: ``left_s`` seconds for the whole, ``steps`` is (id, seconds left) of those that run;
    ``unknown`` are steps of which no time is known, which count as 0."""

    left_s: float
    steps: tuple[tuple[str, float], ...]
    unknown: tuple[str, ...]


@frozen
class StepFinished(Event):
    """A step ended; ``status`` is done, up-to-date, failed or cancelled."""

    step: str
    title: str
    status: str
    duration_s: float
    peak_bytes: int = 0
    detail: str = ""


@frozen
class Notice(Event):
    """A message for the user; ``level`` is info, warning or error."""

    level: str
    text: str
    step: str = ""


@frozen
class RunFinished(Event):
    """The plan ended; ``status`` is ok, failed or cancelled."""

    status: str
    duration_s: float


class Sink(Protocol):
    """Receives events; called from several threads, one call at a time."""

    def emit(self, event: Event) -> None:
        """Take one event."""

    def close(self) -> None:
        """Finish: leave the terminal as it was found."""


def notify(sink: Sink, text: str, *, level: str = "info", step: str = "") -> None:
    """Emit a notice."""
    sink.emit(Notice(time.time(), level, text, step))


class NullSink:
    """A sink that keeps nothing."""

    def emit(self, event: Event) -> None:
        """Drop the event."""

    def close(self) -> None:
        """Do nothing."""
