"""How much a person wants to see."""

from __future__ import annotations

from enum import IntEnum, auto

from xpubuild.engine.events import Event, Notice, RunFinished, StepFinished, StepOutput


class Level(IntEnum):
    """``--quiet``, the default, ``--verbose``."""

    QUIET = auto()
    NORMAL = auto()
    VERBOSE = auto()


def matters(event: Event) -> bool:
    """Whether an event is told even with ``--quiet``: failures, errors and how the run ended."""
    if isinstance(event, Notice):
        return event.level == "error"
    if isinstance(event, StepFinished):
        return event.status == "failed"
    return isinstance(event, RunFinished)


def shown(event: Event, level: Level) -> bool:
    """Whether a sink for people tells about this event at this level."""
    if level is Level.QUIET:
        return matters(event)
    return level is Level.VERBOSE or not isinstance(event, StepOutput)
