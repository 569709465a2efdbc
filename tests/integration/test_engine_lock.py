"""The workspace lock between real processes."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engine import program

from xpubuild.engine.lock import described, held_by, owner, workspace_lock
from xpubuild.engine.process import Cancel
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
    assert str(tmp_path / "new") in caught.value.why
    assert not (tmp_path / "new").exists()
