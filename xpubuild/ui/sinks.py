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
from typing import TextIO

from xpubuild.engine import events
from xpubuild.engine.progress import is_counter
from xpubuild.ui import wording
from xpubuild.ui.terminal import Terminal, annotation, clean, disconnect, flag, fold, harmless, one_line
from xpubuild.ui.wording import Level, Running, shown

#: Lines of output that GithubSink keeps per step; the whole is in the step's log.
_KEPT_LINES = 5000
# CI services end a job that says nothing for 10 minutes, and linking device code can take longer than that.
_SILENCE_S = 60.0
_COLORS = {
    **dict.fromkeys(("done", "ok"), "green"), **dict.fromkeys(("failed", "error"), "red"),
    **dict.fromkeys(("cancelled", "warning"), "yellow"),
}  # fmt: skip


class PlainSink:
    """Writes events as lines. ``clock`` returns the time that events carry: seconds since the epoch."""

    #: Seconds between calls of ``tick``.
    period_s = 5.0

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        self.terminal, self.level, self._clock = terminal, level, clock
        self._began: float | None = None
        self._running: dict[str, Running] = {}
        self._next_forecast = 0.0

    def emit(self, event: events.Event) -> None:
        """Take one event."""
        if self._began is None:
            self._began = event.time
        if isinstance(event, events.StepStarted):
            self._running[event.step] = Running(event.time, log=event.log, spoke=event.time)
        if self._due(event) and shown(event, self.level):
            self.tell(event)
        if isinstance(event, events.StepFinished):
            self._running.pop(event.step, None)

    def _due(self, event: events.Event) -> bool:
        """Whether it is time to show this; counts are shown rarely."""
        if isinstance(event, events.StepProgress):
            step = self._running.setdefault(event.step, Running(event.time, spoke=event.time))
            step.detail = event.detail
            # Every 10 s at first, then every 60 s.
            if event.time - step.spoke < min(max((event.time - step.began) / 10, 10.0), 60.0):
                return False
            step.spoke = event.time
        elif isinstance(event, events.RunForecast):
            if event.time < self._next_forecast or not wording.left(event):
                return False
            self._next_forecast = event.time + max(_SILENCE_S, event.left_s / 10)
        return True

    def tell(self, event: events.Event) -> None:
        """Write an event as a line, in a colour by its status or level."""
        state = getattr(event, "level", "") or getattr(event, "status", "")
        styles = [_COLORS[state]] if state in _COLORS else []
        bold = ["bold"] if isinstance(event, (events.RunStarted, events.RunFinished)) else []
        self.line(event.time, wording.line(event, self.log_of(event)), *bold, *styles)

    def tick(self) -> None:
        """Say that a step still runs when it has been silent for a minute."""
        now = self._clock()
        for name, step in self._running.items():
            if now - step.spoke >= _SILENCE_S and self.level is not Level.QUIET:
                step.spoke = now
                detail = f": {step.detail}" if step.detail else ""
                text = f"{name}: still running after {wording.duration(now - step.began)}{detail}"
                self.line(now, one_line(text))

    def close(self) -> None:
        """Nothing to put back: every line is written when it is known."""

    def line(self, at: float, text: str, *styles: str) -> None:
        """Write text that may have several lines, each behind the time since the start."""
        body = clean(text).rstrip("\n").split("\n")
        lines = [self.terminal.paint(f"{self.stamp(at)} {part}", *styles) for part in body]
        self.terminal.write("\n".join(lines) + "\n")

    def stamp(self, at: float) -> str:
        """Return the time since the start, in brackets."""
        return f"[{wording.clock(at - (self._began if self._began is not None else at))}]"

    def log_of(self, event: events.Event) -> str:
        """Return the log that the event's step named when it began."""
        step = self._running.get(getattr(event, "step", ""))
        return step.log if step else ""


class GithubSink(PlainSink):
    """Plain lines with folds and annotations; output goes into the folds, as --verbose would show it."""

    def __init__(
        self, terminal: Terminal, level: Level = Level.NORMAL, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(terminal, min(level, Level.NORMAL), clock)
        self._output: dict[str, deque[str]] = {}
        self._count: dict[str, int] = {}

    def emit(self, event: events.Event) -> None:
        """Take one event."""
        super().emit(event)
        if isinstance(event, events.StepOutput) and not is_counter(event.line):
            self._count[event.step] = self._count.get(event.step, 0) + 1
            kept = self._output.setdefault(event.step, deque(maxlen=_KEPT_LINES))
            kept.append(f"{self.stamp(event.time)} {harmless(one_line(event.line))}\n")
        elif isinstance(event, events.StepFinished):
            self._output.pop(event.step, None)

    def tell(self, event: events.Event) -> None:
        """Print the fold of a step that ended; make annotations of failures, warnings and errors."""
        if isinstance(event, events.Notice) and event.level in ("warning", "error"):
            self.terminal.write(annotation(event.level, event.text, event.step))
            return
        if isinstance(event, events.StepFinished):
            self._fold(event.step, f"{event.step}: output", self.log_of(event))
        super().tell(event)
        if isinstance(event, events.StepFinished) and event.status == "failed":
            message = event.detail or f"see {self.log_of(event) or 'its log'}"
            self.terminal.write(annotation("error", message, f"{event.step} failed"))

    def close(self) -> None:
        """Print the output of steps that never ended (the run was interrupted)."""
        for step in list(self._output):
            self._fold(step, f"{step}: interrupted", "its log")

    def line(self, at: float, text: str, *styles: str) -> None:
        """Write lines in which no workflow command can hide."""
        super().line(at, harmless(text), *styles)

    def _fold(self, step: str, title: str, log: str) -> None:
        if kept := self._output.pop(step, None):
            dropped = self._count.pop(step) - len(kept)
            head = f"... {dropped} earlier lines are in {log}\n" if dropped else ""
            body = harmless(clean(head)) + "".join(kept)
            self.terminal.write(fold(title, body))


class JsonLinesSink:
    """Writes every event, also each line of output; with ``--quiet`` only failures and the end."""

    def __init__(self, terminal: Terminal, level: Level = Level.NORMAL) -> None:
        self.terminal, self.level = terminal, level

    def emit(self, event: events.Event) -> None:
        """Take one event."""
        if shown(event, Level.QUIET if self.level is Level.QUIET else Level.VERBOSE):
            self.terminal.write(json.dumps(event.to_json(), ensure_ascii=True) + "\n")

    def close(self) -> None:
        """Nothing to put back."""


class SerialSink:
    """Passes events on one at a time, calls ``tick`` of sinks that have one, and outlives a broken stream.

    A reader that goes away (``2>&1 | head``), a terminal that hangs up or a full disk behind a redirection
    must not end an install: the sink falls silent and ``broken`` is True from then on.
    """

    def __init__(self, inner: events.Sink, stream: TextIO) -> None:
        self.inner, self.broken, self._stream = inner, False, stream
        # A signal handler may emit while the same thread is inside emit: hence reentrant, with a queue.
        self._lock = threading.RLock()
        self._queue: deque[events.Event] = deque()
        self._busy = self._closed = False
        self._stop = threading.Event()
        self._ticker: threading.Thread | None = None

    def __enter__(self) -> SerialSink:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def emit(self, event: events.Event) -> None:
        """Take one event; after ``close`` it is dropped."""
        with self._lock:
            if self._closed:
                return
            self._queue.append(event)
            if not self._busy:
                if self._ticker is None and hasattr(self.inner, "tick"):
                    self._ticker = threading.Thread(target=self._tick, name="xpubuild-ui", daemon=True)
                    self._ticker.start()
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
                self._guarded(functools.partial(self.inner.emit, self._queue.popleft()))
        finally:
            self._busy = False

    def _guarded(self, action: Callable[[], None]) -> None:
        self.broken = self.broken or self._stream.closed
        try:
            if not self.broken:
                action()
        except OSError:
            self.broken = True
            disconnect(self._stream)

    def _tick(self) -> None:
        while not self._stop.wait(getattr(self.inner, "period_s", 1.0)):
            with self._lock:
                if not self._closed:
                    self._guarded(getattr(self.inner, "tick"))  # noqa: B009 - not every sink has one


def make_sink(
    kind: str | None, stream: TextIO | None = None, env: Mapping[str, str] | None = None, *,
    quiet: bool = False, verbose: bool = False,
) -> SerialSink:  # fmt: skip
    """Return the sink for ``--log-format``; None chooses by the stream and the environment.

    ``stream`` is standard error and ``env`` the process's own environment by default. ``quiet`` leaves
    failures and the end, ``verbose`` adds every line of output.

    ``rich`` needs a terminal that can move its cursor and becomes ``plain`` without one or with ``--quiet``.
    NO_COLOR asks for no escape sequences and CI says that nobody watches, so both mean plain lines.
    """
    stream, env = sys.stderr if stream is None else stream, os.environ if env is None else env
    level = Level.QUIET if quiet else Level.VERBOSE if verbose else Level.NORMAL
    terminal = Terminal.detect(stream, env)
    if kind is None and terminal.live and not env.get("NO_COLOR") and not flag(env, "CI"):
        kind = "rich"
    kind = kind or ("github" if env.get("GITHUB_ACTIONS") == "true" else "plain")
    others: dict[str, Callable[..., events.Sink]] = {"jsonl": JsonLinesSink, "github": GithubSink}
    inner = others.get(kind, PlainSink)(terminal, level)
    if kind == "rich" and terminal.live and level is not Level.QUIET:
        # Importing rich takes longer than many runs of xpubuild; only this sink needs it.
        from xpubuild.ui.live import RichSink  # noqa: PLC0415

        inner = RichSink(terminal, level)
    return SerialSink(inner, stream)
