"""Runs commands to their end: long ones, with a log and a listener for their lines, and questions.

``child`` starts them. Here their output is read, and they are watched: deadline, cancellation, memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from xpubuild.engine.child import PIPE, STDOUT, Child, resolve_executable, spawn
from xpubuild.engine.files import explained
from xpubuild.engine.lines import LineReader
from xpubuild.engine.redact import Redactor
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import InterruptedByUserError
from xpubuild.frozen import frozen

#: How long a reader waits before it looks at deadline and cancellation again.
TICK_S = 0.1
_LOOK_EVERY_S = 0.5
#: Signals in order, each with the seconds it is given before the next; after the last comes SIGKILL.
LADDER = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0))
#: Of each stream of a short command, in bytes: no answer that is asked for is nearly as long.
MOST_OUTPUT_BYTES = 16 << 20
#: The network of a command that was cut off from every other, as ``supervise`` says it.
LOOPBACK = "loopback"
#: Measurements of memory that are kept of one command, however long it runs.
MOST_SAMPLES = 240
#: Counts the processes that the kernel ended for want of memory, on the whole machine, since Linux 4.13.
_VMSTAT = Path("/proc/vmstat")
_OOM_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


class Cancel:
    """A request to stop, shared by the threads of one run; one ``above`` it counts too."""

    def __init__(self, above: Cancel | None = None) -> None:
        # A plain flag: an Event has a lock, for which a signal handler on top of another would wait forever.
        self._asked, self._above = False, above
        self.reason = ""

    def set(self, reason: str) -> None:
        """Ask everything that watches this object to stop; the first reason is kept."""
        if not self._asked:
            self.reason = reason
            self._asked = True

    def __bool__(self) -> bool:
        return self._asked or bool(self._above)

    def stop_here(self, _size: int = 0) -> None:
        """End work of this process where it was asked to; may be called as progress, with a size.

        Raises:
            InterruptedByUserError: it was asked to stop.
        """
        if self:
            raise InterruptedByUserError(
                "interrupted", why=self.reason, fix="run the same command again to continue"
            )


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
    #: Of an isolated command: ``LOOPBACK``, or why it had the machine's network; the hosts that it looked up.
    network: str = ""
    asked: tuple[str, ...] = ()

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
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-self.returncode).name}"
        return f"exited with code {self.returncode}"


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


class _Watch:
    """Deadline, cancellation and the signals INT, TERM, KILL in turn for one command; its memory."""

    def __init__(
        self, child: Child, deadline_s: float | None, cancel: Cancel | None,
        on_tick: Callable[[], None] | None = None,
    ) -> None:  # fmt: skip
        self.child, self.cancel, self.on_tick = child, cancel, on_tick
        self.started = time.monotonic()
        self.end = None if deadline_s is None else self.started + deadline_s
        self.timed_out = self.cancelled = False
        #: Seconds after the start, and bytes of the process tree then.
        self.memory: list[tuple[float, int]] = []
        self._rungs = list(LADDER)
        self._next_rung = self._next_look = 0.0

    def tick(self) -> None:
        """Look at clock, cancellation and memory; call it several times a second."""
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _LOOK_EVERY_S
            if self.on_tick is not None:
                self.on_tick()
            self.memory.append((round(now - self.started, 1), _tree_bytes(self.child.process.pid)))
        if not (self.timed_out or self.cancelled):
            self.timed_out = self.end is not None and now >= self.end
            self.cancelled = not self.timed_out and bool(self.cancel)
        if (self.timed_out or self.cancelled) and now >= self._next_rung:
            if not self._rungs:
                self.child.kill_tree()
                return
            number, patience = self._rungs.pop(0)
            with contextlib.suppress(ProcessLookupError):
                # The supervisor passes it on to the command's process group.
                self.child.process.send_signal(number)
            self._next_rung = now + patience


def thinned(points: Sequence[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    """Return the beginning and the largest value of each of at most ``MOST_SAMPLES`` stretches of time."""
    every = max(1, -(-len(points) // MOST_SAMPLES))
    stretches = (points[first : first + every] for first in range(0, len(points), every))
    return tuple((stretch[0][0], max(value for _, value in stretch)) for stretch in stretches)


def _tree_bytes(pid: int) -> int:
    """Return the resident memory (bytes) of everything below a process."""
    import psutil  # noqa: PLC0415 - for what is started, not for what is up to date

    total = 0
    with contextlib.suppress(psutil.Error, OSError):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                total += child.memory_info().rss
    return total


def oom_kills() -> int | None:
    """Return how many processes the kernel has ended for want of memory so far; None if unknown.

    A SIGKILL alone does not show who sent it.
    """
    with contextlib.suppress(OSError):
        found = _OOM_KILLS.search(_VMSTAT.read_text("ascii", "replace"))
        return int(found[1]) if found is not None else None
    return None


def _pump(child: Child, watch: _Watch, takers: Sequence[Callable[[bytes], None]]) -> None:
    """Read what a command prints until its supervisor has ended and the pipes are empty."""
    with selectors.DefaultSelector() as selector:
        for stream, take in zip((child.process.stdout, child.process.stderr), takers, strict=False):
            if stream is not None:
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, take)
        while selector.get_map():
            ended = child.ended()
            ready = selector.select(0 if ended else TICK_S)
            for key, _ in ready:
                if data := os.read(key.fd, 1 << 16):
                    key.data(data)
                else:
                    selector.unregister(key.fileobj)
            if ended and not ready:
                # The supervisor was killed, and somebody it could not end still holds the pipe.
                break
            watch.tick()
    while not child.ended():
        watch.tick()
        time.sleep(0.005)


def run(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, log: IO[bytes] | None = None,
    on_line: Callable[[str], None] | None = None, deadline_s: float | None = None,
    cancel: Cancel | None = None, redact: Redactor | None = None, hold: Sequence[int] = (),
    on_tick: Callable[[], None] | None = None,
    isolated: bool = False,
) -> ProcessResult:  # fmt: skip
    """Run one long command; standard output and error are merged, in order.

    ``env`` is the whole environment. ``hold`` are descriptors (locks) that stay open until the last
    descendant is gone, also when this process is killed. ``on_tick`` is called about twice a second.
    ``isolated``: see ``spawn``. The exit status is a result, not an exception.

    Raises:
        ToolchainError: the program or ``cwd`` is not there, or the program cannot be started.
        NoSpaceError: the log could not be written.
    """
    if cancel:
        return ProcessResult(tuple(argv), -signal.SIGINT, 0.0, cancelled=True)
    before = oom_kills()
    child = spawn(argv, env=env, cwd=cwd, stderr=STDOUT, hold=hold, isolated=isolated)
    reader = LineReader(log, on_line, redact or Redactor.from_environment(env))
    watch = _Watch(child, deadline_s, cancel, on_tick)
    # On an exception (a full disk, a bug) the tree dies with us.
    writing = explained(Path(str(log.name)), "writing a log") if log is not None else contextlib.nullcontext()
    with writing, contextlib.closing(child):
        _pump(child, watch, (reader.feed,))
        reader.finish()
        if log is not None:
            log.flush()
    child.require_started(tuple(reader.tail))
    after, largest = oom_kills(), int(child.number("max_rss_bytes"))
    return ProcessResult(
        argv=child.argv, returncode=child.returncode, duration_s=time.monotonic() - watch.started,
        user_s=child.number("user_s"), system_s=child.number("system_s"), max_rss_bytes=largest,
        peak_tree_bytes=max((largest, *(value for _, value in watch.memory))), memory=thinned(watch.memory),
        tail=tuple(reader.tail), timed_out=watch.timed_out, cancelled=watch.cancelled,
        oom_kills=None if before is None or after is None else max(0, after - before),
        network=child.result.get("network", ""), asked=tuple(child.result.get("asked", "").split()),
    )  # fmt: skip


def query(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, deadline_s: float = 30.0,
    cancel: Cancel | None = None, stdin: bytes = b"",
) -> QueryResult:  # fmt: skip
    """Run one short command and return its whole output, standard error apart; ``stdin`` is its input.

    A command that prints more than ``MOST_OUTPUT_BYTES`` on one of them is killed, and the result says so.

    Raises:
        ToolchainError: the program is not there or cannot be started.
    """
    if cancel:
        return QueryResult(tuple(argv), -signal.SIGINT, "", "", timed_out=True)
    child = spawn(argv, env=env, cwd=cwd, stderr=PIPE, stdin=stdin)
    watch = _Watch(child, deadline_s, cancel)
    texts, too_long = (bytearray(), bytearray()), False

    def take(text: bytearray, data: bytes) -> None:
        nonlocal too_long
        room = MOST_OUTPUT_BYTES - len(text)
        text += data[:room]
        if len(data) > room:
            too_long = True
            child.kill_tree()

    with contextlib.closing(child):
        _pump(child, watch, [lambda data, text=text: take(text, data) for text in texts])  # type: ignore[misc]
    out, err = (text.decode("utf-8", "replace") for text in texts)
    child.require_started(err.splitlines())
    return QueryResult(child.argv, child.returncode, out, err, watch.timed_out or watch.cancelled, too_long)


def probe(argv: Sequence[str], *, env: Mapping[str, str], deadline_s: float = 30.0) -> QueryResult:
    """Run ``query`` in an empty folder that is removed afterwards, with whatever the program wrote there.

    For programs of the host: some write files into their working directory (``ocloc query NEO_REVISION``),
    and an interpreter imports from it. If no temporary folder can be made, the program runs in ``/``.

    Raises:
        ToolchainError: the program is not there or cannot be started.
    """
    program = resolve_executable(str(argv[0]), env)
    with contextlib.ExitStack() as stack:
        try:
            scratch = stack.enter_context(scratch_folder("probe"))
        except OSError:
            scratch = Path("/")
        return query([program, *argv[1:]], env=env, cwd=scratch, deadline_s=deadline_s)
