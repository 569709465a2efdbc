"""The only place that starts a process: a command below ``supervise.py``, in a session of its own.

Commands are argument lists with an environment that was built, not inherited. There is no terminal to prompt
on, one process group to signal, and nothing left behind when xpubuild itself is killed. ``process`` runs
commands to their end.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NoReturn

from xpubuild.engine.environment import usable_path
from xpubuild.engine.redact import Redactor
from xpubuild.errors import ToolchainError, UsageError

#: Where standard error goes: a pipe of its own, or standard output's.
PIPE, STDOUT = subprocess.PIPE, subprocess.STDOUT
_SUPERVISOR = Path(__file__).with_name("supervise.py")
#: Python ignores these, which a program started by exec would inherit: `xpubuild run -- yes | head`.
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)


@dataclass
class Child:
    """A command below its supervisor; what it writes is read from ``process``."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    process: subprocess.Popen[bytes]
    life_write: int
    result_stream: IO[bytes]
    result: dict[str, str] = field(default_factory=dict)
    killed: bool = False

    def kill_tree(self) -> None:
        """Close the life pipe: the supervisor kills every descendant and ends."""
        if self.life_write >= 0:
            self.killed = self.process.poll() is None
            os.close(self.life_write)
            self.life_write = -1

    def ended(self) -> bool:
        """Return whether the supervisor is gone; what one that was itself killed left behind dies here."""
        status = self.process.poll()
        if status is not None and status < 0:
            _kill_session(self.process.pid)
        return status is not None

    def close(self) -> None:
        """End the tree if it still runs, take the result and free the descriptors."""
        self.kill_tree()
        self.process.wait()
        self.ended()
        with self.result_stream:
            text = self.result_stream.read().decode("utf-8", "replace")
        # A supervisor that was killed while it wrote has reported nothing.
        lines = text.splitlines() if text.endswith("\n") else []
        self.result = {name: value for name, _, value in (line.partition(" ") for line in lines)}
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
            raise _not_started(self.argv, self.env, str(message))

    def number(self, name: str, default: float = 0.0) -> float:
        """Return a number that the supervisor reported: none where it was killed or ordered to kill."""
        return float(self.result.get(name, default))

    @property
    def returncode(self) -> int:
        """How the command ended, once it is closed."""
        return int(self.number("returncode", -signal.SIGKILL))


def _kill_session(session: int) -> None:
    import psutil  # noqa: PLC0415 - for what is started, not for what is up to date

    for pid in psutil.pids():
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.getsid(pid) == session:
                os.kill(pid, signal.SIGKILL)


def resolve_executable(name: str, env: Mapping[str, str], cwd: Path | None = None) -> str:
    """Return the full path of a program as the *child's* PATH finds it; ``./name`` counts from ``cwd``.

    Raises:
        ToolchainError: the program is not there, or is no executable file.
    """
    is_path = os.sep in name
    wanted = str(cwd / name) if is_path and cwd is not None else name
    found = shutil.which(wanted, path=usable_path(env.get("PATH", os.defpath))[0])
    if found is not None:
        return str(Path(found).absolute())
    if is_path and Path(wanted).exists():
        raise ToolchainError(
            f"'{name}' cannot be started",
            why="it exists, but is not an executable file",
            fix="make it executable, or use another program",
            commands=(f"chmod +x {shlex.quote(wanted)}",),
        )
    on_path = "it is not on the PATH that xpubuild sets for this command"
    fix = "correct the path" if is_path else f"install {name}, or put its folder on PATH"
    if not is_path and name and ((cwd or Path()) / name).is_file():
        fix = f"to use the file in this folder, write ./{name}"
    raise ToolchainError(
        f"the program '{name}' was not found",
        why="there is no such file" if is_path else on_path,
        fix=fix,
        evidence={"PATH": env.get("PATH", "")},
    )


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: Path | None = None, stderr: int = PIPE,
    hold: Sequence[int] = (), stdin: bytes = b"", isolated: bool = False,
) -> Child:  # fmt: skip
    """Start a command; ``hold`` are descriptors that it and its children keep.

    An ``isolated`` one has no network but loopback, where the kernel allows that.

    Raises:
        ToolchainError: the program or ``cwd`` is not there, or it cannot be started.
    """
    if cwd is not None and not cwd.is_dir():
        raise ToolchainError(
            f"the folder {cwd} does not exist",
            why=f"'{argv[0]}' should run in it",
            fix="run the same command again; the step that creates it will run first",
        )
    full = (resolve_executable(str(argv[0]), env, cwd), *map(str, argv[1:]))
    odd = [name for name, value in env.items() if not name or "=" in name or "\0" in name + value]
    if odd or any("\0" in word for word in full):
        where = f"the variable {odd[0]!r}" if odd else "an argument"
        raise _not_started(full, env, f"{where} has a NUL, or '=' in its name, which no program can be given")
    # The supervisor itself has this process's environment, so no library path or preload of the command can
    # break it, and its Python adds nothing to what the command gets (LC_CTYPE where no locale is set).
    entries = [os.fsencode(f"{name}={value}") for name, value in env.items()]
    try:
        with contextlib.ExitStack() as on_failure, contextlib.ExitStack() as given:
            # No folder needs room for input or environment, and no file keeps their secrets.
            environment, data = (given.enter_context(_in_memory(it)) for it in (b"\0".join(entries), stdin))
            life_read, life_write = os.pipe()
            given.callback(os.close, life_read)
            on_failure.callback(os.close, life_write)
            result_read, result_write = os.pipe()
            given.callback(os.close, result_write)
            on_failure.callback(os.close, result_read)
            fds = (life_read, result_write, environment)
            with _signals_blocked():
                process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(_SUPERVISOR), *map(str, fds),
                     "isolated" if isolated else "--", *full],
                    stdin=data if stdin else subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr,
                    cwd=cwd, start_new_session=True, pass_fds=(*fds, *hold),
                )  # fmt: skip
            on_failure.pop_all()
    except OSError as error:
        # Too many processes or descriptors, too long an argument list, a folder one may not enter.
        raise _not_started(full, env, error.strerror or str(error)) from error
    return Child(full, env, process, life_write, os.fdopen(result_read, "rb"))


@contextlib.contextmanager
def _in_memory(data: bytes) -> Iterator[int]:
    with os.fdopen(os.memfd_create("given"), "w+b") as stream:
        stream.write(data)
        stream.seek(0)
        yield stream.fileno()


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    # The mask is inherited: the supervisor opens it when it is ready to pass signals on.
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


def _not_started(argv: Sequence[str], env: Mapping[str, str], why: str) -> ToolchainError:
    redact = Redactor.from_environment(env)
    return ToolchainError(
        f"'{argv[0]}' could not be started",
        why=redact(why),
        fix="check that the file is executable and built for this machine, and the limits of this account"
        " (ulimit -a)",
        evidence={"argv": [redact(word) for word in argv]},
    )


def become(argv: Sequence[str], env: Mapping[str, str]) -> NoReturn:
    """Replace this process by a program that is found on the PATH of ``env``; no shell is in between.

    What it does with signals and how it ends is what the caller sees.

    Raises:
        UsageError: it cannot be started.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    before = [(number, signal.signal(number, signal.SIG_DFL)) for number in _IGNORED_BY_PYTHON]
    try:
        os.execvpe(argv[0], list(argv), dict(env))  # noqa: S606 - the user's own command
    except OSError as error:
        for number, handler in before:
            signal.signal(number, handler)
        raise UsageError(
            f"'{argv[0]}' cannot be run",
            why=error.strerror or str(error),
            fix="check its name; programs are searched on the PATH of the workspace",
        ) from error
