"""How a command ended, and what a short one printed."""

from __future__ import annotations

import contextlib
import signal

from xpubuild.frozen import frozen


def how_ended(returncode: int) -> str:
    """Say in a few words how a command ended that nobody stopped."""
    if returncode < 0:
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-returncode).name}"
    return f"exited with code {returncode}"


@frozen
class ProcessResult:
    """How one command ended. ``returncode`` is negative where a signal ended it, as in ``subprocess``."""

    argv: tuple[str, ...]
    returncode: int
    duration_s: float
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_bytes: int = 0
    peak_tree_bytes: int = 0
    #: (seconds after the start, bytes of the whole process tree), a bounded number of points.
    memory: tuple[tuple[float, int], ...] = ()
    tail: tuple[str, ...] = ()
    timed_out: bool = False
    cancelled: bool = False
    #: Processes of this machine that the kernel ended meanwhile for want of memory; None if unknown.
    oom_kills: int | None = None

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.returncode == 0 and not self.timed_out and not self.cancelled

    def describe(self) -> str:
        """Say in a few words how the command ended."""
        if self.timed_out:
            return f"timed out after {self.duration_s:.0f} s"
        if self.cancelled:
            return "was interrupted"
        return how_ended(self.returncode)


@frozen
class QueryResult:
    """The whole output of a short command.

    ``too_long``: it printed more than was to be kept, and was killed; the output is the beginning then.
    """

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False
    too_long: bool = False

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.returncode == 0 and not self.timed_out and not self.too_long
