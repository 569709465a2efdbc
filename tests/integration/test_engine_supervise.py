"""The supervisor as a program of its own: started with bare descriptors, answered with one document."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil
import pytest
from support.engine import MARK, PATH, eventually, marked, new_mark, nothing_left

import xpubuild.engine.supervise as module

SCRIPT = Path(module.__file__)


@dataclass
class Supervisor:
    """A supervisor that was started by hand; the end of ``life`` is its order to kill."""

    process: subprocess.Popen[str]
    life: IO[bytes]
    result: IO[bytes]
    out: str = ""

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def document(self) -> dict[str, Any]:
        """Wait for the end; return the result, and keep the output as ``out``."""
        self.out, _ = self.process.communicate(timeout=60)
        text = self.result.read()
        # Every value is a number but the last, which is a text.
        pairs = (line.split(" ", 1) for line in text.decode().splitlines())
        return {name: value if name == "exec_error" else float(value) for name, value in pairs}


@contextlib.contextmanager
def supervised(
    *argv: str, env: dict[str, str] | None = None, interpreter: str = sys.executable
) -> Iterator[Supervisor]:
    life_read, life_write = os.pipe()
    result_read, result_write = os.pipe()
    environment = os.memfd_create("environment")
    os.write(environment, b"\0".join(os.fsencode(f"{k}={v}") for k, v in (env or {"PATH": PATH}).items()))
    os.lseek(environment, 0, os.SEEK_SET)
    fds = (life_read, result_write, environment)
    process = subprocess.Popen(
        [interpreter, "-I", "-S", str(SCRIPT), *map(str, fds), "--", *argv],
        pass_fds=fds,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={},
    )
    for fd in fds:
        os.close(fd)
    with os.fdopen(result_read, "rb") as result, process:
        with os.fdopen(life_write, "wb", buffering=0) as life:
            yield Supervisor(process, life, result)
        # With its life pipe at an end it ends, whatever the test left running.
        process.wait(60)


def test_the_document() -> None:
    with supervised("/bin/sh", "-c", "exit 3") as supervisor:
        document = supervisor.document()
        assert document.keys() == {"returncode", "max_rss_bytes", "user_s", "system_s", "exec_error"}
        assert (document["returncode"], document["exec_error"]) == (3, "")
        assert 100_000 < document["max_rss_bytes"] < 200_000_000
        assert 0 <= document["user_s"] < 10
        assert supervisor.process.returncode == 0
        assert supervisor.out == ""


#: A leader that waits for its child, and a child in a session of its own. Each says what it gets.
GROUP = """
import os, signal, sys, time
child = os.fork()
outsider = 0 if child == 0 else os.fork()
name = "second" if child == 0 else "leader" if outsider else "outsider"
if name == "outsider":
    os.setsid()

def told(number, _frame):
    if name == "leader":
        os.waitpid(child, 0)
    os.write(1, f"{name} {signal.Signals(number).name}\\n".encode())
    os._exit(7)

for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, told)
os.write(1, b"ready\\n")
while True:
    time.sleep(0.05)  # a signal just before a long sleep would be told after it
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_goes_to_the_whole_group(number: signal.Signals) -> None:
    mark = new_mark()
    with (
        nothing_left(mark),
        supervised(sys.executable, "-c", GROUP, env={"PATH": PATH, MARK: mark}) as supervisor,
    ):
        assert [supervisor.line() for _ in range(3)] == ["ready\n"] * 3
        os.kill(supervisor.process.pid, number)
        assert supervisor.document()["returncode"] == 7
        assert supervisor.out.splitlines() == [f"second {number.name}", f"leader {number.name}"]


def test_the_end_of_the_life_pipe_is_the_order_to_kill() -> None:
    mark = new_mark()
    text = "trap '' INT TERM; setsid sleep 300 & echo ready; sleep 300"
    with (
        nothing_left(mark),
        supervised("/bin/sh", "-c", text, env={"PATH": PATH, MARK: mark}) as supervisor,
    ):
        assert supervisor.line() == "ready\n"
        assert eventually(lambda: len(marked(mark)) == 3) is not None
        supervisor.life.close()
        assert supervisor.process.wait(20) == 1
        assert not marked(mark)
        assert supervisor.document() == {}


def test_orphans_are_reaped_while_the_command_runs() -> None:
    """A build of days would else fill the process table."""
    mark = new_mark()
    text = "i=0; while [ $i -lt 40 ]; do (setsid true &); i=$((i + 1)); done; echo ready; sleep 300"
    with (
        nothing_left(mark),
        supervised("/bin/sh", "-c", text, env={"PATH": PATH, MARK: mark}) as supervisor,
    ):
        assert supervisor.line() == "ready\n"
        tree = psutil.Process(supervisor.process.pid)
        assert eventually(lambda: len(tree.children(recursive=True)) == 2) is not None, tree.children()
