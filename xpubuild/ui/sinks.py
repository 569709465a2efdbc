"""Events to standard error: a live picture for a person's terminal (``live``), lines for pipes and CI, lines
with folds and annotations for GitHub Actions, JSON lines for programs.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import TextIO

from xpubuild.engine.events import (
    Event,
    Notice,
    RunFinished,
    RunForecast,
    RunStarted,
    Sink,
    StepFinished,
    StepOutput,
    StepProgress,
    StepStarted,
)
from xpubuild.engine.progress import is_counter
from xpubuild.errors import UsageError
from xpubuild.ui import wording
from xpubuild.ui.terminal import (
    Terminal,
    annotation,
    clean,
    disconnect,
    escape_data,
    flag,
    harmless,
    one_line,
)
from xpubuild.ui.wording import Level, matters, shown

KINDS = ("rich", "plain", "github", "jsonl")
#: Lines of output that GithubSink keeps per step; the whole is in the step's log.
_KEPT_LINES = 5000
# CI services end a job that says nothing for 10 minutes, and linking device code can take longer than that.
_SILENCE_S = 60.0
_COLORS = {"done": "green", "failed": "red", "ok": "green", "warning": "yellow", "error": "red"}


@dataclass
class _Pace:
    """When a running step spoke last. A long step speaks less often: every 10 s at first, then every 60 s."""

    began: float
    spoke: float
    detail: str = ""

    def due(self, event: StepProgress) -> bool:
        return event.time - self.spoke >= min(max((event.time - self.began) / 10, 10.0), 60.0)


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
                    now, one_line(f"{step}: still running after {wording.duration(now - pace.began)}{detail}")
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
        return f"[{wording.clock(at - (self._began if self._began is not None else at))}]"

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
        if event.time >= self._next_forecast and (text := wording.left(event)):
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


class GithubSink(PlainSink):
    """Plain lines with folds and annotations."""

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        # Output goes into the folds, whole; that is what --verbose would add.
        super().__init__(terminal, min(level, Level.NORMAL), clock)
        self._output: dict[str, deque[str]] = {}
        self._dropped: dict[str, int] = {}

    def emit(self, event: Event) -> None:
        """Take one event."""
        super().emit(event)
        if isinstance(event, StepOutput):
            self._keep(event)
        elif isinstance(event, StepFinished):
            self._output.pop(event.step, None)

    def close(self) -> None:
        """Print what steps said that never ended (the run was broken off)."""
        for step in list(self._output):
            self._fold(step, f"{step}: interrupted")

    def line(self, at: float, text: str, *styles: str) -> None:
        """Write lines in which no workflow command can hide."""
        super().line(at, harmless(text), *styles)

    def step_finished(self, event: StepFinished) -> None:
        """Print the fold of the step, then how it ended."""
        self._fold(event.step, f"{event.step}: output")
        super().step_finished(event)
        if event.status == "failed":
            message = event.detail or f"see {self.log_of(event.step) or 'its log'}"
            self.terminal.write(annotation("error", message, f"{event.step} failed"))

    def notice(self, event: Notice) -> None:
        """Make annotations of warnings and errors."""
        if event.level in ("warning", "error"):
            self.terminal.write(annotation(event.level, event.text, event.step))
        else:
            super().notice(event)

    def _keep(self, event: StepOutput) -> None:
        if is_counter(event.line):
            return
        kept = self._output.setdefault(event.step, deque(maxlen=_KEPT_LINES))
        if len(kept) == _KEPT_LINES:
            self._dropped[event.step] = self._dropped.get(event.step, 0) + 1
        kept.append(f"{self.stamp(event.time)} {harmless(one_line(event.line))}\n")

    def _fold(self, step: str, title: str) -> None:
        kept = self._output.pop(step, None)
        if not kept:
            return
        dropped = self._dropped.pop(step, 0)
        head = f"... {dropped} earlier lines are in {self.log_of(step)}\n" if dropped else ""
        body = harmless(clean(head)) + "".join(kept)
        self.terminal.write(f"::group::{escape_data(one_line(title))}\n{body}::endgroup::\n")


class JsonLinesSink:
    """Writes every event, also each line of output; with ``--quiet`` only failures and the end."""

    def __init__(self, terminal: Terminal, level: Level = Level.NORMAL) -> None:
        self.terminal = terminal
        self.level = level

    def emit(self, event: Event) -> None:
        """Take one event."""
        if self.level is not Level.QUIET or matters(event):
            self.terminal.write(json.dumps(event.to_json(), ensure_ascii=True) + "\n")

    def close(self) -> None:
        """Nothing to put back."""


class SerialSink:
    """Passes events on one at a time, calls ``tick`` of sinks that have one, and outlives a broken stream.

    A reader that goes away (``2>&1 | head``), a terminal that hangs up or a full disk behind a redirection
    must not end an install: the sink falls silent and ``broken`` is True from then on.
    """

    def __init__(self, inner: Sink, stream: TextIO) -> None:
        self.inner = inner
        self.broken = False
        self._stream = stream
        # A signal handler may emit while the same thread is inside emit: hence reentrant, with a queue.
        self._lock = threading.RLock()
        self._queue: deque[Event] = deque()
        self._busy = False
        self._closed = False
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> SerialSink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def emit(self, event: Event) -> None:
        """Take one event; after ``close`` it is dropped."""
        with self._lock:
            if self._closed:
                return
            self._queue.append(event)
            if not self._busy:
                self._start_ticker()
                self._drain()

    def close(self) -> None:
        """Stop ticking and leave the terminal as it was found; safe to call again."""
        with self._lock:
            if self._closed:
                return
            self._drain()
            self._closed = True
            self._stop.set()
            self._guarded(self.inner.close)
        if self._ticker is not None and self._ticker is not threading.current_thread():
            self._ticker.join()

    def _drain(self) -> None:
        self._busy = True
        try:
            while self._queue:
                event = self._queue.popleft()
                self._guarded(functools.partial(self.inner.emit, event))
        finally:
            self._busy = False

    def _guarded(self, action: Callable[[], None]) -> None:
        if self.broken or self._stream.closed:
            self.broken = True
            return
        try:
            action()
        except OSError:
            self.broken = True
            disconnect(self._stream)

    def _start_ticker(self) -> None:
        tick = getattr(self.inner, "tick", None)
        if tick is None or self._ticker is not None:
            return
        period_s = float(getattr(self.inner, "period_s", 1.0))
        self._ticker = threading.Thread(
            target=self._tick_until_closed, args=(tick, period_s), name="xpubuild-ui", daemon=True
        )
        self._ticker.start()

    def _tick_until_closed(self, tick: Callable[[], None], period_s: float) -> None:
        while not self._stop.wait(period_s):
            with self._lock:
                if not self._closed:
                    self._guarded(tick)


def choose(terminal: Terminal, env: Mapping[str, str]) -> str:
    """Return the kind of sink for a stream: rich on a person's terminal, github in Actions, else plain.

    NO_COLOR asks for no escape sequences and CI says that nobody watches, so both mean plain lines.
    """
    if terminal.live and not env.get("NO_COLOR") and not flag(env, "CI"):
        return "rich"
    return "github" if env.get("GITHUB_ACTIONS") == "true" else "plain"


def make_sink(
    kind: str | None,
    stream: TextIO | None = None,
    env: Mapping[str, str] | None = None,
    *,
    quiet: bool = False,
    verbose: bool = False,
) -> SerialSink:
    """Return the sink for ``--log-format``; None chooses by the stream and the environment.

    ``stream`` is standard error and ``env`` the process's own environment by default. ``quiet`` leaves
    failures and the end, ``verbose`` adds every line of output.

    ``rich`` needs a terminal that can move its cursor and becomes ``plain`` without one or with ``--quiet``.

    Raises:
        UsageError: the kind is not one of ``KINDS``.
    """
    stream = sys.stderr if stream is None else stream
    env = os.environ if env is None else env
    level = Level.QUIET if quiet else Level.VERBOSE if verbose else Level.NORMAL
    terminal = Terminal.detect(stream, env)
    kind = kind or choose(terminal, env)
    if kind not in KINDS:
        raise UsageError(
            f"unknown log format '{kind}'",
            why=f"known formats: {', '.join(KINDS)}",
            fix="pass one of these to --log-format, or omit the option",
        )
    return SerialSink(_make(kind, terminal, level), stream)


def _make(kind: str, terminal: Terminal, level: Level) -> Sink:
    if kind == "jsonl":
        return JsonLinesSink(terminal, level)
    if kind == "github":
        return GithubSink(terminal, level)
    if kind == "rich" and terminal.live and level is not Level.QUIET:
        # Importing rich takes longer than many runs of xpubuild; only this sink needs it.
        from xpubuild.ui.live import RichSink  # noqa: PLC0415

        return RichSink(terminal, level)
    return PlainSink(terminal, level)
