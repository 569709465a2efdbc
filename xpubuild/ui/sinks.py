"""Chooses a sink and makes it safe to call from several threads."""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TextIO

from xpubuild.engine.events import Event, Sink
from xpubuild.errors import UsageError
from xpubuild.ui.github import GithubSink
from xpubuild.ui.jsonl import JsonLinesSink
from xpubuild.ui.level import Level
from xpubuild.ui.plain import PlainSink
from xpubuild.ui.terminal import Terminal, disconnect, flag

KINDS = ("rich", "plain", "github", "jsonl")


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
