"""The only place that starts a process: a command below ``supervise.py``, in a session of its own.

Commands are argument lists with an environment that was built, not inherited. There is no terminal to prompt
on, one process group to signal, and nothing left behind when xpubuild itself is killed. ``process`` runs
commands to their end, ``piped`` reads one's output as it comes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from xpubuild.engine.executables import resolve_executable
from xpubuild.engine.redact import Redactor
from xpubuild.engine.watch import kill_session
from xpubuild.errors import ToolchainError

#: How long a reader waits before it looks at deadline and cancellation again.
TICK_S = 0.1
#: Where standard error goes: a pipe of its own, or standard output's.
PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT
_SUPERVISOR = Path(__file__).with_name("supervise.py")


@dataclass
class Child:
    """A command below its supervisor; what it writes is read from ``process``."""

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: Path | None
    process: subprocess.Popen[bytes]
    life_write: int
    result_stream: IO[bytes]
    result: dict[str, str] = field(default_factory=dict)
    killed: bool = False

    @property
    def pid(self) -> int:
        """The supervisor's, below which everything of the command lives."""
        return self.process.pid

    def kill_tree(self) -> None:
        """Close the life pipe: the supervisor kills every descendant and ends."""
        if self.life_write >= 0:
            self.killed = self.process.poll() is None
            os.close(self.life_write)
            self.life_write = -1

    def signal(self, number: int) -> None:
        """Send a signal to the command's process group, by its supervisor."""
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
        self.result = _read_result(text.decode("utf-8", "replace"))
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def require_started(self, tail: Sequence[str]) -> None:
        """Do nothing where the command, now closed, ran; ``tail`` is the end of what was printed.

        Raises:
            ToolchainError: it could not be started.
        """
        message = self.result.get("exec_error")
        if not message and not self.result and not self.killed and self.process.returncode > 0:
            message = f"its supervisor exited with code {self.process.returncode}: {' '.join(tail[-3:])}"
        if message:
            raise _not_started(self.argv, self.env, self.cwd, str(message))

    def number(self, name: str, default: float = 0.0) -> float:
        """Return a number that the supervisor reported: none where it was killed or ordered to kill."""
        return float(self.result.get(name, default))

    @property
    def returncode(self) -> int:
        """How the command ended, once it is closed."""
        return int(self.number("returncode", -signal.SIGKILL))


def _read_result(text: str) -> dict[str, str]:
    """Return what a supervisor reported, by name: nothing of one that was killed while it wrote."""
    lines = text.splitlines() if text.endswith("\n") else []
    return {name: value for name, _, value in (line.partition(" ") for line in lines)}


def prepare(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> tuple[str, ...]:
    """Return the arguments with the program's full path.

    Raises:
        ToolchainError: the program or ``cwd`` is not there.
    """
    if cwd is not None and not cwd.is_dir():
        raise ToolchainError(
            f"the folder {cwd} does not exist",
            why=f"'{argv[0]}' should run in it",
            fix="run the same command again; the step that creates it will run first",
        )
    return (resolve_executable(str(argv[0]), env, cwd), *map(str, argv[1:]))


@contextlib.contextmanager
def in_memory(data: bytes) -> Iterator[int]:
    """Yield a descriptor to read ``data`` from: no folder needs room for it, no file keeps its secrets."""
    with os.fdopen(os.memfd_create("input"), "w+b") as stream:
        stream.write(data)
        stream.seek(0)
        yield stream.fileno()


@contextlib.contextmanager
def running(child: Child) -> Iterator[None]:
    """Close the command after the block: on an exception (a full disk, a bug) the tree dies with us."""
    try:
        yield
    finally:
        child.close()


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, stderr: int = PIPE,
    hold: Sequence[int] = (), stdin: int = subprocess.DEVNULL,
) -> Child:  # fmt: skip
    """Start what ``prepare`` returned; ``hold`` are descriptors that the command and its children keep.

    Raises:
        ToolchainError: it cannot be started.
    """
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
    return Child(argv, env, cwd, process, life_write, os.fdopen(result_read, "rb"))


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


def _not_started(argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, why: str) -> ToolchainError:
    redact = Redactor.from_environment(env)
    return ToolchainError(
        f"'{argv[0]}' could not be started",
        why=redact(why),
        fix="check that the file is executable and built for this machine, and the limits of this account"
        " (ulimit -a)",
        evidence={"argv": [redact(word) for word in argv], "cwd": str(cwd) if cwd else ""},
    )
