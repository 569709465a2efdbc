"""The workspace lock between real processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.engine import MARK, PATH, marked, new_mark, nothing_left, program

from xpubuild.engine import process
from xpubuild.engine.lock import described, held_by, owner, workspace_lock
from xpubuild.engine.process import Cancel, ProcessResult, query, run
from xpubuild.errors import InterruptedByUserError, ToolchainError, WorkspaceBusyError

#: Takes the lock, says so, and keeps it until its input ends. Arguments: workspace, shared or not.
HOLDER = """
import sys
from pathlib import Path
from xpubuild.engine.lock import workspace_lock

with workspace_lock(Path(sys.argv[1]), command="xpubuild install m\u00edne", shared=sys.argv[2] == "shared"):
    print("locked", flush=True)
    sys.stdin.read()
print("released", flush=True)
"""


#: Also after errors.
pytestmark = pytest.mark.usefixtures("nothing_stays_open")


@contextlib.contextmanager
def holder(workspace: Path, mode: str = "exclusive") -> Iterator[subprocess.Popen[str]]:
    with program(HOLDER, str(workspace), mode) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield process


def mine(
    workspace: Path, *, shared: bool = False, patience_s: float = 0.0, **more: object
) -> contextlib.AbstractContextManager[int]:
    return workspace_lock(workspace, command="test", shared=shared, patience_s=patience_s, **more)  # type: ignore[arg-type]


def test_one_writer_at_a_time_and_the_other_is_named(workspace: Path) -> None:
    with holder(workspace) as process:
        with pytest.raises(WorkspaceBusyError) as caught, mine(workspace):
            pass
        error = caught.value
        assert error.exit_code == 75
        assert str(workspace) in error.what
        assert f"process {process.pid} on {socket.gethostname()} (xpubuild install m\u00edne)" in error.why
        assert error.evidence["pid"] == process.pid
        assert held_by(workspace)["pid"] == process.pid
        process.communicate(input="")
    assert held_by(workspace) == {}
    with mine(workspace) as lock:
        assert lock >= 0


def test_a_waiter_gets_it_when_the_owner_ends(workspace: Path) -> None:
    told: list[str] = []
    with holder(workspace) as process:
        assert process.stdin is not None
        timer = threading.Timer(1.5, process.stdin.close)
        timer.start()
        started = time.monotonic()
        with mine(workspace, patience_s=60, on_wait=told.append):
            assert time.monotonic() - started > 1.0
            assert owner(workspace)["pid"] == os.getpid()
        timer.join()
        process.stdin = None
    assert len(told) == 1
    assert f"process {process.pid}" in told[0]


def test_a_waiter_can_be_stopped(workspace: Path) -> None:
    cancel = Cancel()
    timer = threading.Timer(0.3, cancel.set, ["SIGINT"])
    timer.start()
    with (
        holder(workspace),
        pytest.raises(InterruptedByUserError),
        mine(workspace, patience_s=600, cancel=cancel),
    ):
        pass
    timer.join()


def test_readers_share_and_exclude_a_writer(workspace: Path) -> None:
    with holder(workspace, "shared"), holder(workspace, "shared"), mine(workspace, shared=True):
        assert held_by(workspace) == {}
        with pytest.raises(WorkspaceBusyError, match="in use"), mine(workspace):
            pass
    with mine(workspace):
        pass


def test_kill_9_leaves_nothing_to_clear(workspace: Path) -> None:
    with holder(workspace) as process:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert owner(workspace)["pid"] == process.pid, "the note of the dead owner"
        assert held_by(workspace) == {}
        with mine(workspace):
            assert owner(workspace)["pid"] == os.getpid()
        assert owner(workspace) == {}


def test_a_dead_owner_is_not_named_for_a_living_reader(workspace: Path) -> None:
    with holder(workspace) as process:
        os.kill(process.pid, signal.SIGKILL)
    with holder(workspace, "shared"), pytest.raises(WorkspaceBusyError) as caught, mine(workspace):
        pass
    assert "another process" in caught.value.why


def test_a_lock_whose_file_was_removed_excludes_nobody_and_is_not_trusted(workspace: Path) -> None:
    """`clean` removes the file while it holds it; a waiter must not wake up holding a file without a name."""
    first = mine(workspace)
    got: list[int] = []

    def wait_for_it() -> None:
        with mine(workspace, patience_s=60) as second:
            got.append(os.fstat(second).st_nlink)
            with pytest.raises(WorkspaceBusyError), mine(workspace):
                pass

    with first:
        waiter = threading.Thread(target=wait_for_it)
        waiter.start()
        time.sleep(0.3)
        (workspace / ".lock").unlink()
    waiter.join()
    assert got == [1]


def test_a_workspace_that_went_away_is_told(workspace: Path) -> None:
    workspace.rmdir()
    for shared in (False, True):
        with pytest.raises(ToolchainError, match="does not exist"), mine(workspace, shared=shared):
            pass
    assert held_by(workspace) == {}


@pytest.mark.parametrize("note", ["", "{", "[1]", '"x"', "\xff"])
def test_the_note_is_never_relied_on(note: str, workspace: Path) -> None:
    (workspace / ".lock.owner").write_bytes(note.encode("latin-1"))
    assert owner(workspace) == {}
    assert described(owner(workspace)) == "another process"
    with mine(workspace) as lock:
        assert held_by(workspace)["pid"] == os.getpid()
        (workspace / ".lock.owner").unlink()
        assert held_by(workspace) == {"pid": None}
        assert lock >= 0


def test_a_file_system_without_flock(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_fd: int, _mode: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ToolchainError) as caught, mine(workspace):
        pass
    assert "does not support flock" in caught.value.why
    assert "--workspace" in caught.value.fix


def test_a_lock_that_is_a_link_makes_no_file_elsewhere(tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    workspace.mkdir()
    (workspace / ".lock").symlink_to(tmp_path / "new")
    with (
        pytest.raises(ToolchainError, match="is a link") as caught,
        workspace_lock(workspace, command="xpubuild install"),
    ):
        pass
    assert str(tmp_path / "new") in caught.value.what
    assert not (tmp_path / "new").exists()


# ---- Deadlines, cancellation, and that nothing outlives its command


BASE = {"PATH": PATH}
#: Says that it got SIGINT and SIGTERM, and goes on; its child does the same in a session of its own.
STUBBORN = """
exec 2>/dev/null
trap 'echo SIGINT' INT; trap 'echo SIGTERM' TERM
echo ready
[ "$1" = alone ] || setsid sh "$0" alone &
while :; do sleep 0.05; done
"""
#: Leaves a daemon behind: a session of its own, a second fork, and no standard streams where told so.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open(sys.argv[1], "w").write(str(os.getpid()))
        if sys.argv[2] == "closed":
            for fd in (0, 1, 2):
                os.close(fd)
        time.sleep(300)
    os._exit(0)
os.wait()
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
"""


#: Also after errors.


def python(*arguments: str, **options: Any) -> ProcessResult:
    return run([sys.executable, "-c", *arguments], env=BASE, **options)


def shell(text: str, **options: Any) -> ProcessResult:
    return run(["sh", "-c", text], env=BASE, **options)


@pytest.fixture
def short_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LADDER", ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.3)))


@pytest.mark.usefixtures("short_ladder")
def test_the_whole_ladder_at_the_deadline(tmp_path: Path) -> None:
    script = tmp_path / "stubborn.sh"
    script.write_text(STUBBORN)
    mark = new_mark()
    with nothing_left(mark):
        result = run(["sh", str(script)], env={**BASE, MARK: mark}, deadline_s=1.5)
    assert result.timed_out
    assert not result.ok
    assert result.returncode == -signal.SIGKILL
    assert "timed out" in result.describe()
    # The child left the group, which alone gets the signals; killed are both.
    assert result.tail == ("ready", "ready", "SIGINT", "SIGTERM")
    assert result.duration_s < 20


def test_the_first_rung_is_enough_for_what_listens() -> None:
    cancel = Cancel()
    started = time.monotonic()
    result = shell(
        "trap 'echo bye; exit 5' INT; echo ready; while :; do sleep 0.05; done",
        on_line=lambda line: cancel.set("test") if line == "ready" else None,
        cancel=cancel,
    )
    assert (result.returncode, result.cancelled, result.ok) == (5, True, False)
    assert result.tail == ("ready", "bye")
    assert result.describe() == "was interrupted"
    assert time.monotonic() - started < process.LADDER[0][1]


def test_what_is_cancelled_beforehand_is_not_started(tmp_path: Path) -> None:
    cancel = Cancel()
    cancel.set("first")
    cancel.set("second")
    assert cancel.reason == "first"
    result = shell(f"touch '{tmp_path}/ran'", cancel=cancel)
    assert result.cancelled
    assert not result.ok
    assert not query(["touch", str(tmp_path / "ran")], env=BASE, cancel=cancel).ok
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("delay_ms", [0, 10, 20, 35, 60])
def test_stopped_while_it_starts(delay_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal must wait until the supervisor can pass it on: neither lost nor a traceback in the log."""
    monkeypatch.setattr("xpubuild.engine.process.TICK_S", 0.001)

    class Later(Cancel):
        def __init__(self) -> None:
            super().__init__()
            self.first: float | None = None

        def __bool__(self) -> bool:
            now = time.monotonic()
            if self.first is None:
                self.first = now
                return False
            return now - self.first >= delay_ms / 1000

    result = run(["sleep", "60"], env=BASE, cancel=Later())
    assert result.cancelled
    assert result.returncode == -signal.SIGINT
    assert result.tail == ()


@pytest.mark.parametrize("streams", ["closed", "kept"])
def test_a_daemon_does_not_outlive_its_command(streams: str, tmp_path: Path) -> None:
    """Where it keeps our pipe open, the end of the command is seen all the same."""
    note = tmp_path / "pid"
    result = python(DAEMON, str(note), streams)
    assert result.ok
    assert not psutil.pid_exists(int(note.read_text()))
    assert result.duration_s < 60


def test_quick_forkers_are_caught() -> None:
    mark = new_mark()
    text = "for i in 1 2 3 4 5 6 7 8; do (setsid sh -c 'while :; do (sleep 0.01) & done' &); done; sleep 0.3"
    with nothing_left(mark):
        assert run(["sh", "-c", text], env={**BASE, MARK: mark}).ok


def test_a_supervisor_that_is_killed_does_not_hang_its_caller() -> None:
    mark = new_mark()
    with nothing_left(mark, within_s=2.0):
        result = run(
            ["sh", "-c", "sleep 300 & echo $PPID; wait"],
            env={**BASE, MARK: mark},
            on_line=lambda line: os.kill(int(line), signal.SIGKILL),
            deadline_s=60,
        )
    assert result.returncode == -signal.SIGKILL
    assert not result.timed_out


def test_a_pipe_held_by_what_nobody_can_find_does_not_hang_the_caller() -> None:
    """It left the session, and its supervisor was killed: it cannot be ended, nor may it stop the run."""
    mark = new_mark()
    started = time.monotonic()
    result = run(
        ["sh", "-c", "setsid -f sh -c 'echo $0; sleep 60' $PPID; sleep 60"],
        env={**BASE, MARK: mark},
        on_line=lambda line: os.kill(int(line), signal.SIGKILL),
        deadline_s=30,
    )
    for pid in marked(mark):
        os.kill(pid, signal.SIGKILL)
    assert result.returncode == -signal.SIGKILL
    assert time.monotonic() - started < 25


def test_a_listener_that_raises_ends_the_command() -> None:
    class ListenerError(Exception):
        pass

    def listen(_line: str) -> None:
        raise ListenerError

    mark = new_mark()
    with nothing_left(mark), pytest.raises(ListenerError):
        run(["sh", "-c", "echo x; sleep 300"], env={**BASE, MARK: mark}, on_line=listen)
