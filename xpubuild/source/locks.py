"""flock for what several workspaces share: readers together, a writer alone.

Never an existence file: flock ends with the last process that holds the descriptor, so nothing is left to
clear after ``kill -9``. The descriptor goes to the git processes that write under the lock (``hold``), so a
git that outlives its caller for a moment still keeps everybody else out.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from xpubuild.engine.files import explained
from xpubuild.engine.process import Cancel
from xpubuild.errors import ToolchainError
from xpubuild.source.git import stopped

_EVERY_S = 0.05
_TELL_AFTER_S = 1.0


@contextlib.contextmanager
def locked(
    path: Path,
    *,
    shared: bool = False,
    cancel: Cancel | None = None,
    on_wait: Callable[[], None] | None = None,
) -> Iterator[int]:
    """Hold ``path`` (made if needed, never removed) and yield its descriptor.

    Raises:
        InterruptedByUserError: ``cancel`` was set while waiting.
        ToolchainError: the file system cannot lock, or the file cannot be made.
        NoSpaceError: the disk is full.
    """
    with explained(path, "locking a source"):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        _acquire(fd, path, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, cancel, on_wait)
        yield fd
    finally:
        os.close(fd)


def _acquire(
    fd: int, path: Path, mode: int, cancel: Cancel | None, on_wait: Callable[[], None] | None
) -> None:
    started = time.monotonic()
    told = on_wait is None
    while True:
        try:
            fcntl.flock(fd, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            if cancel:
                raise stopped() from None
            if not told and on_wait is not None and time.monotonic() - started > _TELL_AFTER_S:
                told = True
                on_wait()
            time.sleep(_EVERY_S)
        except OSError as error:
            raise ToolchainError(
                f"{path} cannot be locked",
                why=f"its file system refuses flock: {error.strerror}",
                fix="put the cache on a local disk (XDG_CACHE_HOME), or mount the file system with flock",
            ) from error
        else:
            return
