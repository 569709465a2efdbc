"""Events as single lines of text; the sinks that write lines share it."""

from __future__ import annotations

from xpubuild.engine.events import (
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    StepFinished,
    StepProgress,
    StepStarted,
)
from xpubuild.ui import format as show
from xpubuild.ui.terminal import one_line

_MINUTE = 60
_ENDED = {"failed": "FAILED after", "cancelled": "interrupted after", "done": "done in"}
_RUN_ENDED = {"ok": "finished in", "failed": "FAILED after", "cancelled": "interrupted after"}


def run_started(event: RunStarted) -> str:
    """Return what is to be done, and where."""
    text = f"{event.recipe}: {show.plural(len(event.steps), 'step')}"
    if event.done:
        text += f", {len(event.done)} up to date"
    return one_line(f"{text}; workspace {event.workspace}")


def step_started(event: StepStarted) -> str:
    """Return which step begins and why."""
    reason = f" ({event.reason})" if event.reason else ""
    return one_line(f"{event.step}: {event.title}{reason}")


def step_finished(event: StepFinished, log: str = "") -> str:
    """Return how a step ended; ``log`` is named where it failed."""
    if event.status == "up-to-date":
        return one_line(f"{event.step}: up to date")
    text = f"{event.step}: {_ENDED.get(event.status, event.status)} {show.duration(event.duration_s)}"
    if event.peak_bytes > 0:
        text += f", peak memory {show.memory(event.peak_bytes)}"
    if event.detail:
        text += f": {event.detail}"
    if log and event.status == "failed":
        text += f" (log: {log})"
    return one_line(text)


def percent(event: StepProgress) -> int:
    """Return how much is done, 0 to 100; 100 only when all is."""
    return 100 * min(max(event.done, 0), event.total) // event.total if event.total > 0 else 0


def progress(event: StepProgress) -> str:
    """Return counted progress, or only what is worked on where nothing is counted."""
    parts = []
    if event.total > 0:
        parts.append(f"{show.counted(event.done, event.total, event.unit)} ({percent(event)} %)")
        parts.append(show.rate(event.rate, event.unit))
        parts.append(f"{show.duration(event.eta_s)} left" if event.eta_s > 0 else "")
    counted = ", ".join(part for part in parts if part)
    return one_line(f"{event.step}: " + ": ".join(part for part in (counted, event.detail) if part))


def left(event: RunForecast) -> str:
    """Return how long the run will take yet; "" where nothing tells."""
    if event.left_s <= 0:
        return ""
    if event.left_s < _MINUTE:
        words = "less than a minute left"
        return f"{words}, without {', '.join(event.unknown)}" if event.unknown else words
    return f"{'at least' if event.unknown else 'about'} {show.roughly(event.left_s)} left"


def longest(event: RunForecast) -> str:
    """Return what has run longest, with its memory."""
    return ", ".join(
        f"{what} ({show.duration(seconds)}, {show.memory(size)})" for what, seconds, size in event.longest
    )


def forecast(event: RunForecast) -> str:
    """Return what is left, the memory, and what has run longest; "" where nothing tells."""
    slow = longest(event)
    parts = (left(event), show.memory(event.memory_bytes), f"longest: {slow}" if slow else "")
    return one_line("; ".join(part for part in parts if part)) if parts[0] else ""


def notice(event: Notice) -> str:
    """Return a notice with its step and, unless it only informs, its level; may have several lines."""
    level = "" if event.level == "info" else f"{event.level}: "
    return f"{event.step}: {level}{event.text}" if event.step else f"{level}{event.text}"


def run_finished(event: RunFinished) -> str:
    """Return how the run ended."""
    return f"{_RUN_ENDED.get(event.status, event.status)} {show.duration(event.duration_s)}"
