"""The only place that starts a process.

Commands are argument lists with an environment that was built, not inherited. Each runs under
``supervise.py`` in its own session: no terminal to prompt on, one process group to signal, nothing left
behind when xpubuild itself is killed. Output goes line by line to a log (secrets removed) and to a listener.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from xpubuild.engine.redact import Redactor
from xpubuild.errors import NoSpaceError, ToolchainError

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_TICK_S = 0.1
_MEMORY_EVERY_S = 0.5
_TAIL_LINES = 200
_LADDER = ((signal.SIGINT, 5.0), (signal.SIGTERM, 3.0))
_LONGEST_LINE = 65536
_ENOSPC = 28
_EDQUOT = 122


class Cancel:
    """A request to stop, shared by the threads of one run."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.reason = ""

    def set(self, reason: str) -> None:
        """Ask everything that watches this object to stop; the first reason is kept."""
        if not self._event.is_set():
            self.reason = reason
            self._event.set()

    def __bool__(self) -> bool:
        return self._event.is_set()


@dataclass(frozen=True)
class ProcessResult:
    """How one command ended. ``returncode`` is negative where a signal ended it, as in ``subprocess``."""

    argv: tuple[str, ...]
    returncode: int
    duration_s: float
    user_s: float = 0.0
    system_s: float = 0.0
    max_rss_bytes: int = 0
    peak_tree_bytes: int = 0
    tail: tuple[str, ...] = ()
    timed_out: bool = False
    cancelled: bool = False

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.returncode == 0 and not self.timed_out and not self.cancelled

    def describe(self) -> str:
        """Say in a few words how the command ended."""
        if self.timed_out:
            return f"passed its deadline after {self.duration_s:.0f} s"
        if self.cancelled:
            return "was stopped"
        if self.returncode < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-self.returncode).name}"
        return f"ended with status {self.returncode}"


@dataclass(frozen=True)
class QueryResult:
    """The whole output of a short command."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """Whether the command ended by itself with status 0."""
        return self.returncode == 0 and not self.timed_out


@dataclass
class _Reader:
    """Cuts bytes into lines at newlines and carriage returns, and keeps the last ones."""

    log: IO[bytes] | None
    on_line: Callable[[str], None] | None
    redact: Redactor
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=_TAIL_LINES))
    _rest: bytes = b""

    def feed(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        for line in lines:
            self._line(line)
        if len(self._rest) > _LONGEST_LINE:
            self._line(self._rest)
            self._rest = b""

    def finish(self) -> None:
        if self._rest:
            self._line(self._rest)
            self._rest = b""

    def _line(self, raw: bytes) -> None:
        text = self.redact(raw.decode("utf-8", "replace"))
        self.tail.append(text)
        if self.log is not None:
            self.log.write(text.encode() + b"\n")
        if self.on_line is not None:
            self.on_line(text)


def resolve_executable(name: str, env: Mapping[str, str]) -> str:
    """Return the full path of a program as the *child's* PATH finds it.

    Raises:
        ToolchainError: the program is not there.
    """
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise ToolchainError(
            f"the program '{name}' was not found",
            why="it is not on the PATH that xpubuild gives to this command",
            fix=f"install {Path(name).name}, or put its folder on PATH",
            evidence={"PATH": env.get("PATH", "")},
        )
    return found


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    life_write: int
    result_read: int

    def kill_tree(self) -> None:
        """Close the life pipe: the supervisor kills every descendant and ends."""
        if self.life_write >= 0:
            os.close(self.life_write)
            self.life_write = -1

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def result(self) -> dict[str, object]:
        with os.fdopen(self.result_read, "rb") as stream:
            text = stream.read()
        return dict(json.loads(text)) if text else {}


def _spawn(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: Path | None,
    stderr: int,
    stdin: IO[bytes] | None,
    hold: Sequence[int],
) -> _Child:
    life_read, life_write = os.pipe()
    result_read, result_write = os.pipe()
    command = [sys.executable, "-I", "-S", str(_SUPERVISOR), str(life_read), str(result_write), "--", *argv]
    try:
        process = subprocess.Popen(
            command,
            stdin=stdin if stdin is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=(life_read, result_write, *hold),
        )
    except BaseException:
        os.close(life_write)
        os.close(result_read)
        raise
    finally:
        os.close(life_read)
        os.close(result_write)
    return _Child(process, life_write, result_read)


def _tree_bytes(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.Error, OSError):
        for child in psutil.Process(pid).children(recursive=True):
            with contextlib.suppress(psutil.Error, OSError):
                total += child.memory_info().rss
    return total


class _Watch:
    """Deadline, cancellation and the ladder INT -> TERM -> KILL for one child."""

    def __init__(self, child: _Child, deadline_s: float | None, cancel: Cancel | None) -> None:
        self.child = child
        self.started = time.monotonic()
        self.end = None if deadline_s is None else self.started + deadline_s
        self.cancel = cancel
        self.timed_out = self.cancelled = False
        self.peak = 0
        self._rung = 0
        self._next_rung = 0.0
        self._next_memory = 0.0

    def tick(self) -> None:
        now = time.monotonic()
        if now >= self._next_memory:
            self._next_memory = now + _MEMORY_EVERY_S
            self.peak = max(self.peak, _tree_bytes(self.child.process.pid))
        if not (self.timed_out or self.cancelled):
            self.timed_out = self.end is not None and now >= self.end
            self.cancelled = not self.timed_out and bool(self.cancel)
        if (self.timed_out or self.cancelled) and now >= self._next_rung:
            self._climb(now)

    def _climb(self, now: float) -> None:
        if self._rung < len(_LADDER):
            number, patience = _LADDER[self._rung]
            self.child.signal(number)
            self._next_rung = now + patience
            self._rung += 1
        else:
            self.child.kill_tree()
            self._next_rung = now + 3600


def _pump(child: _Child, watch: _Watch, streams: Mapping[IO[bytes], Callable[[bytes], None]]) -> None:
    """Read until the supervisor has ended and its pipes are empty."""
    selector = selectors.DefaultSelector()
    for stream, take in streams.items():
        os.set_blocking(stream.fileno(), False)
        selector.register(stream, selectors.EVENT_READ, take)
    while selector.get_map():
        for key, _ in selector.select(_TICK_S):
            data = os.read(key.fd, 1 << 16)
            if data:
                key.data(data)
            else:
                selector.unregister(key.fileobj)
        watch.tick()
    while child.process.poll() is None:
        watch.tick()
        time.sleep(0.005)


@contextlib.contextmanager
def _running(child: _Child) -> Iterator[None]:
    try:
        yield
    finally:
        # On an exception (a full disk while logging, a bug) the tree dies with us.
        child.kill_tree()
        child.process.wait()
        for stream in (child.process.stdout, child.process.stderr):
            if stream is not None:
                stream.close()


def _raise_exec_error(argv: Sequence[str], cwd: Path | None, message: object) -> None:
    if message:
        raise ToolchainError(
            f"'{argv[0]}' could not be started",
            why=str(message),
            fix="check that the file is executable and made for this machine",
            evidence={"argv": list(argv), "cwd": str(cwd) if cwd else ""},
        )


def _number(document: Mapping[str, object], key: str, default: float = 0.0) -> float:
    value = document.get(key, default)
    return float(value) if isinstance(value, (int, float)) else default


def _prepare(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None) -> list[str]:
    if cwd is not None and not cwd.is_dir():
        raise ToolchainError(
            f"the folder {cwd} is not there",
            why=f"'{argv[0]}' was to run in it",
            fix="run the same command again; the step that makes it will run first",
        )
    return [resolve_executable(str(argv[0]), env), *map(str, argv[1:])]


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    log: IO[bytes] | None = None,
    on_line: Callable[[str], None] | None = None,
    deadline_s: float | None = None,
    cancel: Cancel | None = None,
    redact: Redactor | None = None,
    hold: Sequence[int] = (),
) -> ProcessResult:
    """Run one long command; standard output and error are merged, in order.

    ``env`` is the whole environment. ``hold`` are descriptors (locks) that stay open until the last
    descendant is gone, also when this process is killed. The exit status is a result, not an exception.

    Raises:
        ToolchainError: the program is not there or cannot be started.
        NoSpaceError: the log could not be written.
    """
    full = _prepare(argv, env, cwd)
    child = _spawn(full, env, cwd, subprocess.STDOUT, None, hold)
    reader = _Reader(log, on_line, redact or Redactor.from_environment(env))
    watch = _Watch(child, deadline_s, cancel)
    with _running(child), _space_errors(log):
        if child.process.stdout is not None:
            _pump(child, watch, {child.process.stdout: reader.feed})
        reader.finish()
        if log is not None:
            log.flush()
    result = child.result()
    _raise_exec_error(full, cwd, result.get("exec_error"))
    return ProcessResult(
        argv=tuple(full),
        returncode=int(_number(result, "returncode", -signal.SIGKILL)),
        duration_s=time.monotonic() - watch.started,
        user_s=_number(result, "user_s"),
        system_s=_number(result, "system_s"),
        max_rss_bytes=int(_number(result, "max_rss_bytes")),
        peak_tree_bytes=max(watch.peak, int(_number(result, "max_rss_bytes"))),
        tail=tuple(reader.tail),
        timed_out=watch.timed_out,
        cancelled=watch.cancelled,
    )


@contextlib.contextmanager
def _space_errors(log: IO[bytes] | None) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in (_ENOSPC, _EDQUOT):
            raise
        raise NoSpaceError(
            "no space left while writing a log",
            why=str(error),
            fix="free some space, then run the same command again; finished steps are kept",
            log=Path(log.name) if log is not None and isinstance(log.name, str) else None,
        ) from error


def query(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path | None = None,
    deadline_s: float = 30.0,
    cancel: Cancel | None = None,
) -> QueryResult:
    """Run one short command and return its whole output, standard error apart.

    Raises:
        ToolchainError: the program is not there or cannot be started.
    """
    full = _prepare(argv, env, cwd)
    child = _spawn(full, env, cwd, subprocess.PIPE, None, ())
    watch = _Watch(child, deadline_s, cancel)
    out, err = bytearray(), bytearray()
    with _running(child):
        streams: dict[IO[bytes], Callable[[bytes], None]] = {}
        if child.process.stdout is not None and child.process.stderr is not None:
            streams = {child.process.stdout: out.extend, child.process.stderr: err.extend}
        _pump(child, watch, streams)
    result = child.result()
    _raise_exec_error(full, cwd, result.get("exec_error"))
    return QueryResult(
        argv=tuple(full),
        returncode=int(_number(result, "returncode", -signal.SIGKILL)),
        stdout=out.decode("utf-8", "replace"),
        stderr=err.decode("utf-8", "replace"),
        timed_out=watch.timed_out or watch.cancelled,
    )
