"""Watches a running command: timeout, cancellation, memory."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from typing import Protocol

from xpubuild.engine.samples import Samples
from xpubuild.errors import InterruptedByUserError

_MEMORY_EVERY_S = 0.5
_LOOK_EVERY_S = 0.5
#: Signals in order, each with the seconds it is given before the next; after the last comes SIGKILL.
LADDER = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0))


class Cancel:
    """A request to stop, shared by the threads of one run."""

    def __init__(self) -> None:
        # A plain flag: an Event has a lock, for which a signal handler on top of another would wait forever.
        self._asked = False
        self.reason = ""

    def set(self, reason: str) -> None:
        """Ask everything that watches this object to stop; the first reason is kept."""
        if not self._asked:
            self.reason = reason
            self._asked = True

    def __bool__(self) -> bool:
        return self._asked

    def stop_here(self, _size: int = 0) -> None:
        """End work of this process where it was asked to; may be called as progress, with a size.

        Raises:
            InterruptedByUserError: it was asked to stop.
        """
        if self:
            raise InterruptedByUserError(
                "interrupted", why=self.reason, fix="run the same command again to continue"
            )


class Child(Protocol):
    """A command as far as it is watched; ``pid`` is its supervisor's."""

    @property
    def pid(self) -> int:
        """The process below which everything of the command lives."""
        ...

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group."""
        ...

    def kill_tree(self) -> None:
        """Kill everything below the supervisor, and it."""
        ...


def kill_session(session: int) -> None:
    """Kill every process of a session."""
    import psutil  # noqa: PLC0415 - for what is started, not for what is up to date

    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)


def tree_bytes(pid: int) -> int:
    """Return the resident memory (bytes) of everything below a process."""
    import psutil  # noqa: PLC0415

    total = 0
    with contextlib.suppress(psutil.Error, OSError):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                total += child.memory_info().rss
    return total


class Watch:
    """Timeout, cancellation and the signals INT, TERM, KILL in turn for one command."""

    def __init__(
        self,
        child: Child,
        deadline_s: float | None,
        cancel: Cancel | None,
        on_tick: Callable[[], None] | None = None,
    ) -> None:
        self.child = child
        self.on_tick = on_tick
        self.started = time.monotonic()
        self.end = None if deadline_s is None else self.started + deadline_s
        self.cancel = cancel
        self.timed_out = self.cancelled = False
        self.peak = 0
        self.memory = Samples()
        self._rung = 0
        self._next_rung = 0.0
        self._next_memory = 0.0
        self._next_look = 0.0

    def tick(self) -> None:
        """Look at clock, cancellation and memory; call it several times a second."""
        now = time.monotonic()
        if self.on_tick is not None and now >= self._next_look:
            self._next_look = now + _LOOK_EVERY_S
            self.on_tick()
        if now >= self._next_memory:
            self._next_memory = now + _MEMORY_EVERY_S
            found = tree_bytes(self.child.pid)
            self.peak = max(self.peak, found)
            self.memory.add(now - self.started, found)
        if not (self.timed_out or self.cancelled):
            self.timed_out = self.end is not None and now >= self.end
            self.cancelled = not self.timed_out and bool(self.cancel)
        if (self.timed_out or self.cancelled) and now >= self._next_rung:
            self._climb(now)

    def _climb(self, now: float) -> None:
        if self._rung < len(LADDER):
            number, patience = LADDER[self._rung]
            self.child.signal(number)
            self._next_rung = now + patience
            self._rung += 1
        else:
            self.child.kill_tree()
            self._next_rung = now + 3600
