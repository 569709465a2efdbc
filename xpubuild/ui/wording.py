"""Numbers and events as words, and which events a person wants to see."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import IntEnum, auto

from xpubuild.engine import events
from xpubuild.ui.terminal import one_line

_MINUTE = 60
_HOUR = 3600
#: (below this time in seconds, a guess is rounded to this many)
_STEPS = (
    (10, 1), (_MINUTE, 5), (10 * _MINUTE, _MINUTE), (_HOUR, 5 * _MINUTE), (5 * _HOUR, _HOUR // 4),
    (10**12, _HOUR),
)  # fmt: skip
_DECIMAL = ("B", "kB", "MB", "GB", "TB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")
# One decimal place would round up to the next digit from here.
_BELOW_TEN = 9.95
_BELOW_HUNDRED = 99.5


def duration(seconds: float) -> str:
    """Return ``0.4 s``, ``12 s``, ``3m 05s`` or ``1h 02m``; negative times count as zero."""
    seconds = max(0.0, seconds)
    if seconds < _BELOW_TEN:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}m {whole % _MINUTE:02d}s"
    return f"{whole // _HOUR}h {whole % _HOUR // _MINUTE:02d}m"


def roughly(seconds: float) -> str:
    """Return a time that is only guessed, no finer than it is known: ``2 s``, ``4 min``, ``1 h 15 min``."""
    for below, step in _STEPS:
        whole = max(1, round(seconds / step)) * step
        if whole < below:
            break
    if whole < _MINUTE:
        return f"{whole} s"
    hours, minutes = divmod(whole // _MINUTE, 60)
    return " ".join(f"{count} {unit}" for count, unit in ((hours, "h"), (minutes, "min")) if count)


def clock(seconds: float) -> str:
    """Return a duration as ``h:mm:ss``, for columns of times."""
    whole = int(max(0.0, seconds))
    return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02d}:{whole % _MINUTE:02d}"


def when(moment: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a moment (seconds since the epoch) as people write it, in local time."""
    try:
        return time.strftime(form, time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        # What a damaged clock has written is no day of any year.
        return "unknown"


def size(count: float) -> str:
    """Return a number of bytes in decimal units, as disks and downloads are labelled: ``12.3 MB``."""
    return _scaled(count, 1000, _DECIMAL)


def memory(count: float) -> str:
    """Return a number of bytes in binary units, as memory is sold: ``1.2 GiB``; nothing for zero."""
    return _scaled(count, 1024, _BINARY) if count > 0 else ""


def _scaled(count: float, step: int, units: tuple[str, ...]) -> str:
    value, unit = float(max(0, count)), 0
    while value >= step - 0.5 and unit < len(units) - 1:
        value /= step
        unit += 1
    return f"{value:.{0 if unit == 0 or value >= _BELOW_HUNDRED else 1}f} {units[unit]}"


def counted(done: int, total: int, unit: str) -> str:
    """Return ``12/345 edges`` or ``1.2 MB of 12.3 MB``; nothing where nothing is counted."""
    if total <= 0:
        return ""
    if unit == "bytes":
        return f"{size(done)} of {size(total)}"
    return f"{done}/{total} {unit}".rstrip()


def plural(count: int, noun: str) -> str:
    """Return ``1 step`` or ``2 steps``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Level(IntEnum):
    """``--quiet``, the default, ``--verbose``."""

    QUIET = auto()
    NORMAL = auto()
    VERBOSE = auto()


@dataclass
class Running:
    """A step that runs: since when, its log, what it does, and when a line about it was written last."""

    began: float
    title: str = ""
    log: str = ""
    detail: str = ""
    spoke: float = 0.0
    progress: events.StepProgress | None = None


def shown(event: events.Event, level: Level) -> bool:
    """Whether an event is shown at this level; with ``--quiet``: failures, errors, the end of the run."""
    if level is not Level.QUIET:
        return level is Level.VERBOSE or not isinstance(event, events.StepOutput)
    match event:
        case events.Notice(level="error") | events.StepFinished(status="failed") | events.RunFinished():
            return True
    return False


_ENDED = {
    "failed": "FAILED after", "cancelled": "interrupted after", "done": "done in", "ok": "finished in",
}  # fmt: skip


def line(event: events.Event, log: str = "") -> str:
    """Return the text of an event; ``log`` is that of its step. Only a notice may have several lines."""
    match event:
        case events.RunStarted():
            done = f", {len(event.done)} up to date" if event.done else ""
            text = f"{event.recipe}: {plural(len(event.steps), 'step')}{done}; workspace {event.workspace}"
        case events.StepStarted():
            text = f"{event.step}: {event.title}" + (f" ({event.reason})" if event.reason else "")
        case events.StepOutput():
            text = f"{event.step} | {event.line}"
        case events.StepProgress():
            text = _progress(event)
        case events.StepFinished(status="up-to-date"):
            text = f"{event.step}: up to date"
        case events.StepFinished():
            text = f"{event.step}: {_ENDED.get(event.status, event.status)} {duration(event.duration_s)}"
            text += f", peak memory {memory(event.peak_bytes)}" if event.peak_bytes > 0 else ""
            text += f": {event.detail}" if event.detail else ""
            text += f" (log: {log})" if log and event.status == "failed" else ""
        case events.RunForecast():
            text = left(event)
        case events.RunFinished():
            text = f"{_ENDED.get(event.status, event.status)} {duration(event.duration_s)}"
        case events.Notice():
            level = "" if event.level == "info" else f"{event.level}: "
            return f"{event.step}: {level}{event.text}" if event.step else f"{level}{event.text}"
    return one_line(text)


def percent(event: events.StepProgress) -> int:
    """Return how much is done, 0 to 100; 100 only when all is."""
    return 100 * min(max(event.done, 0), event.total) // event.total if event.total > 0 else 0


def _progress(event: events.StepProgress) -> str:
    """Return counted progress, or only what is worked on where nothing is counted."""
    count = f"{counted(event.done, event.total, event.unit)} ({percent(event)} %)" if event.total > 0 else ""
    return f"{event.step}: " + ": ".join(filter(None, (count, event.detail)))


def left(event: events.RunForecast) -> str:
    """Return how long the run will still take; "" if unknown."""
    if event.left_s <= 0:
        return ""
    if event.left_s < _MINUTE:
        words = "less than a minute left"
        return f"{words}, without {', '.join(event.unknown)}" if event.unknown else words
    return f"{'at least' if event.unknown else 'about'} {roughly(event.left_s)} left"
