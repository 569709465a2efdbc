"""SIGKILL of the process that started a command: the whole tree goes with it, and only then its locks."""

from __future__ import annotations

import fcntl
import os
import shlex
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support.engine import eventually, marked, new_mark, nothing_left, program

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
        sessions = {os.getsid(pid) for pid in before if psutil.pid_exists(pid)}
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
