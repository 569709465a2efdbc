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
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from xpubuild.engine.executables import resolve_executable
from xpubuild.engine.kept import MOST_OUTPUT_BYTES, Kept
from xpubuild.engine.lines import LineReader
from xpubuild.engine.redact import Redactor
from xpubuild.engine.results import ProcessResult, QueryResult
from xpubuild.engine.watch import Cancel, Watch, kill_session
from xpubuild.errors import NoSpaceError, ToolchainError

__all__ = ["Cancel", "ProcessResult", "QueryResult", "query", "run"]

_SUPERVISOR = Path(__file__).with_name("supervise.py")
_TICK_S = 0.1
_PIPE = subprocess.PIPE
_ENOSPC = 28
_EDQUOT = 122


@dataclass
class _Child:
    process: subprocess.Popen[bytes]
    life_write: int
    result_stream: IO[bytes]
    result: dict[str, object] = field(default_factory=dict)
    killed: bool = False

    @property
    def pid(self) -> int:
        return self.process.pid

    def kill_tree(self) -> None:
        """Close the life pipe: the supervisor kills every descendant and ends."""
        if self.life_write >= 0:
            self.killed = self.process.poll() is None
            os.close(self.life_write)
            self.life_write = -1

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def ended(self) -> bool:
        """Return whether the supervisor is gone; what one that was itself killed left behind dies here."""
        status = self.process.poll()
        if status is not None and status < 0:
            kill_session(self.pid)
        return status is not None

    def close(self) -> None:
        """End the tree if it still runs, take the result and free the descriptors."""
        self.kill_tree()
        self.process.wait()
        self.ended()
        with self.result_stream:
            text = self.result_stream.read()
        self.result = dict(json.loads(text)) if text else {}
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


def _environment_file(env: Mapping[str, str]) -> int:
    """Return a descriptor with ``env``, NUL-separated; the supervisor itself has this process's environment.

    So no library path or preload of the command can break the supervisor, and the supervisor's Python adds
    nothing to what the command gets (it sets LC_CTYPE where no locale is set).
    """
    entries = [os.fsencode(f"{name}={value}") for name, value in env.items()]
    if any(b"\0" in entry for entry in entries) or any("=" in name for name in env):
        raise ValueError("an environment name with '=' or an entry with a NUL")
    fd = os.memfd_create("environment")
    with open(fd, "wb", closefd=False) as stream:
        stream.write(b"\0".join(entries))
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    # The mask is inherited: the supervisor opens it when it is ready to pass signals on.
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def _spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None, stderr: int, hold: Sequence[int],
    stdin: int = subprocess.DEVNULL,
) -> _Child:  # fmt: skip
    try:
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as given:
            environment = _environment_file(env)
            given.callback(os.close, environment)
            life_read, life_write = os.pipe()
            given.callback(os.close, life_read)
            on_failure.callback(os.close, life_write)
            result_read, result_write = os.pipe()
            given.callback(os.close, result_write)
            on_failure.callback(os.close, result_read)
            fds = (life_read, result_write, environment)
            with _signals_blocked():
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_SUPERVISOR), *map(str, fds), "--", *argv],
                    stdin=stdin,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    cwd=cwd,
                    start_new_session=True,
                    pass_fds=(*fds, *hold),
                )
            on_failure.pop_all()
    except OSError as error:
        # Too many processes or descriptors, too long an argument list, a folder one may not enter.
        raise _not_started(argv, env, cwd, error.strerror or str(error)) from error
    return _Child(process, life_write, os.fdopen(result_read, "rb"))


def _pump(child: _Child, watch: Watch, streams: Mapping[IO[bytes], Callable[[bytes], None]]) -> None:
    """Read until the supervisor has ended and its pipes are empty."""
    with selectors.DefaultSelector() as selector:
        for stream, take in streams.items():
            os.set_blocking(stream.fileno(), False)
            selector.register(stream, selectors.EVENT_READ, take)
        while selector.get_map():
            ended = child.ended()
            ready = selector.select(0 if ended else _TICK_S)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if data:
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


@contextlib.contextmanager
def _running(child: _Child) -> Iterator[None]:
    try:
        yield
    finally:
        # On an exception (a full disk while logging, a bug) the tree dies with us.
        child.close()


def _not_started(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, why: str) -> ToolchainError:
    redact = Redactor.from_environment(env)
    return ToolchainError(
        f"'{argv[0]}' could not be started",
        why=redact(why),
        fix="check that the file is executable and made for this machine, and the limits of this account"
        " (ulimit -a)",
        evidence={"argv": [redact(word) for word in argv], "cwd": str(cwd) if cwd else ""},
    )


def _result(
    child: _Child, argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, tail: Sequence[str]
) -> dict[str, object]:
    """Return what the supervisor reported: nothing where it was killed or ordered to kill."""
    message = child.result.get("exec_error")
    if not message and not child.result and not child.killed and child.process.returncode > 0:
        message = f"its supervisor ended with status {child.process.returncode}: {' '.join(tail[-3:])}"
    if message:
        raise _not_started(argv, env, cwd, str(message))
    return child.result


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
    return [resolve_executable(str(argv[0]), env, cwd), *map(str, argv[1:])]


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
    on_tick: Callable[[], None] | None = None,
) -> ProcessResult:
    """Run one long command; standard output and error are merged, in order.

    ``env`` is the whole environment. ``hold`` are descriptors (locks) that stay open until the last
    descendant is gone, also when this process is killed. ``on_tick`` is called about twice a second. The exit
    status is a result, not an exception.

    Raises:
        ToolchainError: the program or ``cwd`` is not there, or the program cannot be started.
        NoSpaceError: the log could not be written.
    """
    full = _prepare(argv, env, cwd)
    if cancel:
        return ProcessResult(tuple(full), -signal.SIGINT, 0.0, cancelled=True)
    child = _spawn(full, env=env, cwd=cwd, stderr=subprocess.STDOUT, hold=hold)
    reader = LineReader(log, on_line, redact or Redactor.from_environment(env))
    watch = Watch(child, deadline_s, cancel, on_tick)
    with _running(child), _space_errors(log):
        if child.process.stdout is not None:
            _pump(child, watch, {child.process.stdout: reader.feed})
        reader.finish()
        if log is not None:
            log.flush()
    result = _result(child, full, env, cwd, tuple(reader.tail))
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
    most_bytes: int = MOST_OUTPUT_BYTES,
) -> QueryResult:
    """Run one short command and return its whole output, standard error apart.

    A command that prints more than ``most_bytes`` on one of them is killed, and the result says so.

    Raises:
        ToolchainError: the program is not there or cannot be started.
    """
    full = _prepare(argv, env, cwd)
    if cancel:
        return QueryResult(tuple(full), -signal.SIGINT, "", "", timed_out=True)
    child = _spawn(full, env=env, cwd=cwd, stderr=subprocess.PIPE, hold=())
    watch = Watch(child, deadline_s, cancel)
    out, err = Kept(child, most_bytes), Kept(child, most_bytes)
    with _running(child):
        streams: dict[IO[bytes], Callable[[bytes], None]] = {}
        if child.process.stdout is not None and child.process.stderr is not None:
            streams = {child.process.stdout: out.take, child.process.stderr: err.take}
        _pump(child, watch, streams)
    result = _result(child, full, env, cwd, err.text.splitlines())
    return QueryResult(
        argv=tuple(full),
        returncode=int(_number(result, "returncode", -signal.SIGKILL)),
        stdout=out.text,
        stderr=err.text,
        timed_out=watch.timed_out or watch.cancelled,
        too_long=out.too_long or err.too_long,
    )
