"""The workspace lock: flock, with a note about its owner beside it. Lock files of builds are in ``install``.

flock ends with the last process that holds the descriptor, so nothing is left to clear after ``kill -9``.
Commands of a run inherit the descriptor: while one of them still lives, the workspace is still in use.
The note is only for people; it is never taken as proof that the lock is held. (filelock offers no shared mode
on flock, and its own read-write lock is a database: status and clean need both modes on one file.)
"""

from __future__ import annotations

import contextlib
import datetime
import errno
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from xpubuild.engine.files import explained
from xpubuild.engine.process import Cancel
from xpubuild.engine.unprintable import without_unprintable
from xpubuild.errors import InterruptedByUserError, ToolchainError, WorkspaceBusyError

_NAME = ".lock"
_NOTE = ".lock.owner"
_SINCE = "%Y-%m-%dT%H:%M:%S%z"
_EVERY_S = 0.05
_TELL_AFTER_S = 1.0
_LONGEST_FIELD = 200
_LARGEST_NOTE = 1 << 16


def owner(workspace: Path) -> dict[str, object]:
    """Return the owner note (pid, host, command, since), empty where there is none."""
    with contextlib.suppress(OSError, ValueError, RecursionError):
        with open(_opened(workspace / _NOTE, os.O_RDONLY), "rb") as stream:
            note = json.loads(stream.read(_LARGEST_NOTE))
        if isinstance(note, dict):
            return note
    return {}


def held_by(workspace: Path) -> dict[str, object]:
    """Return the owner note if another process holds the lock now, else an empty mapping."""
    with contextlib.suppress(OSError), open(_opened(workspace / _NAME, os.O_RDONLY), "rb") as stream:
        try:
            fcntl.flock(stream.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return owner(workspace) or {"pid": None}
    return {}


def require_free(workspace: Path) -> None:
    """Refuse a workspace that another process changes now; nothing is locked, as on a read-only file system.

    Raises:
        WorkspaceBusyError: naming the process.
    """
    if note := held_by(workspace):
        raise _busy(workspace, note, "wait until it ends")


def described(note: Mapping[str, object]) -> str:
    """Say who an owner note is about."""
    if note.get("pid") is None:
        return "another process"
    pid, host, command, since = (_word(note.get(name)) for name in ("pid", "host", "command", "since"))
    return f"process {pid} on {host} ({command}), since {since}"


def began_under(note: Mapping[str, object], moment: float) -> bool:
    """Whether something that began at ``moment`` (seconds since the epoch) began under this owner.

    The note has whole seconds. Where it has none the owner has the benefit of the doubt.
    """
    try:
        since = datetime.datetime.strptime(str(note.get("since")), _SINCE)
    except ValueError:
        return True
    return moment >= since.timestamp()


def _word(value: object) -> str:
    """Return a field of a note as part of a line: anybody may have written it who writes to the folder."""
    text = " ".join(without_unprintable(str(value)).split())
    return text if len(text) <= _LONGEST_FIELD else f"{text[:_LONGEST_FIELD]}..."


def _busy(workspace: Path, note: dict[str, object], fix: str) -> WorkspaceBusyError:
    return WorkspaceBusyError(
        f"the workspace {workspace} is in use", why=f"used by {described(note)}", fix=fix, evidence=note
    )


def _opened(path: Path, access: int) -> int:
    """Open one of the two files: no link is followed, no pipe is waited for."""
    fd = os.open(path, access | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.ELOOP, "not a regular file", str(path))
    return fd


def take(
    fd: int, what: str, fix: str, *, shared: bool, waiting: Callable[[], None], tell: Callable[[], None]
) -> None:
    """Lock an open file, with others or alone.

    While somebody else holds it, ``waiting`` is called again and again and may raise; ``tell``, once, when
    that has lasted for a second. ``what`` and ``fix`` are for a file system that cannot lock.

    Raises:
        ToolchainError: the file system cannot lock.
    """
    mode = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB
    tell_at: float | None = time.monotonic() + _TELL_AFTER_S
    while True:
        try:
            fcntl.flock(fd, mode)
        except BlockingIOError:
            pass
        except OSError as error:
            why = f"its file system does not support flock: {error.strerror}"
            raise ToolchainError(f"{what} cannot be locked", why=why, fix=fix) from error
        else:
            return
        waiting()
        if tell_at is not None and time.monotonic() >= tell_at:
            tell_at = None
            tell()
        time.sleep(_EVERY_S)


@contextlib.contextmanager
def workspace_lock(
    workspace: Path, *, command: str, shared: bool = False, patience_s: float = 10.0,
    on_wait: Callable[[str], None] = lambda _: None, cancel: Cancel | None = None,
) -> Iterator[int]:  # fmt: skip
    """Exclude other writers while the block lasts, or with ``shared`` writers alone; yield the descriptor.

    A shared lock needs no permission to write where the lock file is already there.

    Raises:
        WorkspaceBusyError: still held after ``patience_s`` seconds.
        InterruptedByUserError: ``cancel`` was set while waiting.
        ToolchainError: the file system cannot lock, or the workspace is not there.
    """
    path, note, end = workspace / _NAME, workspace / _NOTE, time.monotonic() + patience_s

    def waiting() -> None:
        if cancel:
            raise InterruptedByUserError("interrupted while waiting for the workspace")
        if time.monotonic() >= end:
            raise _busy(workspace, owner(workspace), "wait until it ends, or use another --workspace")

    def current() -> bool:
        """Whether the file still has its name: a lock on what ``clean`` has removed excludes nobody."""
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(fd), path.stat())
        return False

    while True:
        try:
            with explained(path, "locking the workspace"):
                fd = _opened(path, (os.O_RDONLY if shared else os.O_RDWR) | os.O_CREAT)
        except FileNotFoundError as error:
            why, fix = "its folder was never created, or was removed", "run the same command again"
            raise ToolchainError(f"the workspace {workspace} does not exist", why=why, fix=fix) from error
        with os.fdopen(fd, "rb", buffering=0):
            take(
                fd, f"the workspace {workspace}",
                "use a --workspace on a local disk, or mount the file system with flock", shared=shared,
                waiting=waiting, tell=lambda: on_wait(f"waiting for {described(owner(workspace))}"),
            )  # fmt: skip
            if not current():
                continue
            _write_note(note, command, shared=shared)
            try:
                yield fd
            finally:
                with contextlib.suppress(OSError):
                    if not shared and current():
                        note.unlink(missing_ok=True)
            return


def _write_note(path: Path, command: str, *, shared: bool) -> None:
    if shared:
        # Whoever wrote a note is gone, however it went; it must not be named as the owner.
        with contextlib.suppress(OSError):
            path.unlink()
        return
    me = {"pid": os.getpid(), "host": socket.gethostname()}
    note = {**me, "command": command, "since": time.strftime(_SINCE)}
    with explained(path, "locking the workspace"):
        path.unlink(missing_ok=True)  # it may be a link to somewhere else
        with open(_opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as stream:
            json.dump(note, stream)
