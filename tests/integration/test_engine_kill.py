"""SIGKILL of the process that started a command: the whole tree goes with it, and only then its locks."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import psutil
import pytest
from support.engine import MARK, PATH, eventually, marked, new_mark, nothing_left, program

import xpubuild.engine.supervise as module

#: Runs one command through the process layer, the way a step does. Arguments: lock file, shell text, mark.
CALLER = """
import fcntl, os, sys
from pathlib import Path
from xpubuild.engine.process import run

lock, text, mark = sys.argv[1:]
fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
fcntl.flock(fd, fcntl.LOCK_EX)
environment = {"PATH": os.defpath, "ENGINE_TEST_MARK": mark}
run(["sh", "-c", text], env=environment, hold=(fd,), on_line=lambda l: print(l, flush=True))
print("returned", flush=True)
"""
#: A command as wild as builds get: plain children, one that ignores signals, one in a session of its own, a
#: daemon that was forked twice and closed everything, and one that forks all the time.
TREE = """
sleep 300 &
sh -c 'trap "" INT TERM HUP; while :; do sleep 0.1; done' &
setsid sleep 301 &
setsid sh -c 'setsid sh -c "exec <&- >&- 2>&-; sleep 302; :" & sleep 303' &
sh -c 'while :; do (sleep 0.02) & sleep 0.01; done' &
sleep 0.3
echo ready
wait
"""
KILLERS: dict[str, Callable[[int], None]] = {
    "process": lambda pid: os.kill(pid, signal.SIGKILL),
    "group": lambda pid: os.killpg(pid, signal.SIGKILL),
}
#: What may lie between the kill and the end of the last process. Idle machines need a tenth of it.
AT_ONCE_S = 3.0


def locked(path: Path) -> bool:
    with path.open("rb") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("kill", KILLERS.values(), ids=KILLERS.keys())
def test_the_tree_dies_with_its_caller(kill: Callable[[int], None], tmp_path: Path) -> None:
    mark = new_mark()
    lock = tmp_path / "l\u00f6ck file"
    with nothing_left(mark, AT_ONCE_S), program(CALLER, str(lock), TREE, mark, mark=mark) as caller:
        assert caller.stdout is not None
        assert caller.stdout.readline() == "ready\n"
        assert eventually(lambda: len(marked(mark)) > 8) is not None
        before = marked(mark)
        sessions = set[int]()
        for pid in before:
            with contextlib.suppress(ProcessLookupError):  # short-lived ones end at any time
                sessions.add(os.getsid(pid))
        assert len(sessions) >= 4
        kill(caller.pid)
        took = eventually(lambda: not marked(mark), 10)
        assert took is not None
        assert took < AT_ONCE_S


def test_a_lock_is_free_only_when_the_last_descendant_is_gone(tmp_path: Path) -> None:
    mark = new_mark()
    lock = tmp_path / "lock"
    for _ in range(5):
        with nothing_left(mark, AT_ONCE_S), program(CALLER, str(lock), TREE, mark, mark=mark) as caller:
            assert caller.stdout is not None
            assert caller.stdout.readline() == "ready\n"
            assert locked(lock)
            supervisor = psutil.Process(caller.pid).children()[0].pid
            os.kill(caller.pid, signal.SIGKILL)
            while locked(lock):
                pass
            # The supervisor itself goes last: what it held ends with it.
            left = {pid: words for pid, words in marked(mark).items() if pid not in (supervisor, caller.pid)}
            assert not left


def test_the_end_of_the_thread_that_started_it_does_not_matter(tmp_path: Path) -> None:
    """A parent-death signal would fire here: steps run in threads of a pool."""
    text = """
import sys, threading, time
from xpubuild.engine.child import spawn

spawned = []
argv = ["/bin/sh", "-c", "sleep 0.5; echo done"]
thread = threading.Thread(target=lambda: spawned.append(spawn(argv, env={"PATH": "/bin:/usr/bin"})))
thread.start()
thread.join()
child = spawned[0]
print(child.process.stdout.read().decode().strip(), flush=True)
child.close()
print(child.result["returncode"], flush=True)
"""
    with program(text) as caller:
        out, _ = caller.communicate(timeout=60)
    assert out == "done\n0\n"


def test_two_levels_of_supervisors_die_together(tmp_path: Path) -> None:
    """A step may be a child xpubuild, which runs commands of its own."""
    mark = new_mark()
    inner = tmp_path / "inner.py"
    inner.write_text(CALLER)
    innermost = "setsid sleep 300 & echo ready; sleep 301"
    outer = shlex.join([sys.executable, str(inner), str(tmp_path / "inner lock"), innermost, mark])
    with (
        nothing_left(mark, AT_ONCE_S),
        program(CALLER, str(tmp_path / "lock"), outer, mark, mark=mark) as caller,
    ):
        assert caller.stdout is not None
        assert caller.stdout.readline() == "ready\n"
        assert len([words for words in marked(mark).values() if "supervise.py" in words]) == 2
        os.kill(caller.pid, signal.SIGKILL)
        assert eventually(lambda: not marked(mark), AT_ONCE_S) is not None
        assert not locked(tmp_path / "inner lock")


# ---- The supervisor as a program of its own: started with bare descriptors, answered with one document


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
