"""Programs that checks start: the ranks of a collective, PyTorch's own scripts.

They run in the target's interpreter, each in its own process group with a timeout. The suite cannot import
xpubuild's engine; the harness kills processes that are left when the check ends.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_TAIL = 4000
_TICK_S = 0.05


@dataclass(frozen=True)
class Ended:
    """How a program ended. ``status`` is negative if a signal killed it."""

    status: int
    timed_out: bool
    output: str

    @property
    def ok(self) -> bool:
        """Whether it exited with code 0."""
        return self.status == 0 and not self.timed_out

    def describe(self, what: str) -> str:
        """Say how ``what`` ended, with the last line that it printed."""
        last = next((line.strip() for line in reversed(self.output.splitlines()) if line.strip()), "")
        printed = f": {last[:400]}" if last else ""
        if self.timed_out:
            return f"{what} timed out{printed}"
        if self.status < 0:
            return f"{what} was killed by {_signal(-self.status)}{printed}"
        return f"{what} exited with code {self.status}{printed}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def run_beside(
    commands: Sequence[Sequence[str]],
    *,
    deadline_s: float,
    folder: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> list[Ended]:
    """Run programs in parallel; if one fails, the others, which may wait for it, are killed too.

    ``env`` is added to this process's environment, which the harness has built. Output goes to files in
    ``folder``: a full pipe would block them.
    """
    folder.mkdir(parents=True, exist_ok=True)
    logs = [folder / f"output-{os.getpid()}-{number}.txt" for number in range(len(commands))]
    started = []
    try:
        for command, log in zip(commands, logs):
            with log.open("wb") as stream:
                started.append(
                    subprocess.Popen(
                        list(command), stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                        env={**os.environ, **(env or {})}, cwd=cwd, start_new_session=True,
                    )
                )  # fmt: skip
        late = _wait(started, deadline_s)
    finally:
        for process in started:
            _end(process)
    return [Ended(process.returncode, process in late, _tail(log)) for process, log in zip(started, logs)]


class Talking:
    """A program that reads lines and writes lines; what else it prints goes to ``log``, or where ours goes.

    ``env`` is its whole environment. With ``group`` it is the first of a process group of its own, all of
    which ends with it.
    """

    def __init__(
        self, command: Sequence[str], env: Mapping[str, str], *, log: Path | None = None, group: bool = False
    ) -> None:
        with contextlib.ExitStack() as stack:
            errors = stack.enter_context(log.open("wb")) if log is not None else None
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, bufsize=0,
                env=dict(env), start_new_session=group,
            )  # fmt: skip
        self._group = group
        self.output: IO[bytes] = _there(self._process.stdout)

    def send(self, line: bytes) -> None:
        """Write a line; what a program that is gone does not read is lost."""
        with contextlib.suppress(BrokenPipeError):
            _there(self._process.stdin).write(line + b"\n")

    def line(self, seconds: float) -> bytes | None:
        """Return the next line; b"" at the end of its output, None where neither came in time."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.output, selectors.EVENT_READ)
            if not selector.select(max(0.0, seconds)):
                return None
        return self.output.readline()

    def end(self, grace_s: float = 0.0) -> int:
        """Wait ``grace_s`` for its end, then kill it; return its exit status as ``Ended`` has it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace_s)
        if self._group:
            _end(self._process)
        self._process.kill()
        status = self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            _there(pipe).close()
        return status


def _there(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise ValueError("the program was started without pipes")
    return stream


def python(script: Path, *words: object) -> list[str]:
    """Return the command that runs a script in this interpreter, which leaves no bytecode behind."""
    return [sys.executable, "-B", str(script), *map(str, words)]


def _wait(processes: Sequence[subprocess.Popen[bytes]], deadline_s: float) -> list[subprocess.Popen[bytes]]:
    """Wait until all ended, or one failed; return those that timed out."""
    end = time.monotonic() + deadline_s
    # All are polled each time: the last one may be the one that failed.
    while None in (codes := [process.poll() for process in processes]):
        if any(codes):
            _grace(processes)
            return []
        if time.monotonic() > end:
            return [process for process in processes if process.returncode is None]
        time.sleep(_TICK_S)
    return []


def _grace(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Give the others a moment to notice the failure and report it."""
    end = time.monotonic() + 3.0
    while time.monotonic() < end and None in [process.poll() for process in processes]:
        time.sleep(_TICK_S)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _tail(log: Path) -> str:
    data = log.read_bytes()
    log.unlink()
    return data[-_TAIL:].decode("utf-8", "replace")
