"""flock for what several workspaces share: readers together, a writer alone.

Never an existence file: flock ends with the last process that holds the descriptor, so nothing is left to
clear after ``kill -9``. The descriptor goes to the git processes that write under the lock (``hold``), so a
git that outlives its caller for a moment still keeps everybody else out.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from xpubuild.engine.files import explained
from xpubuild.engine.lock import take
from xpubuild.engine.process import Cancel
from xpubuild.supply.git.git import stopped


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

    def waiting() -> None:
        if cancel:
            raise stopped()

    with explained(path, "locking a source"):
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link would have the file made where it leads to.
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        take(
            fd,
            str(path),
            "put the cache on a local disk (XDG_CACHE_HOME), or mount the file system with flock",
            shared=shared,
            waiting=waiting,
            tell=on_wait or (lambda: None),
        )
        yield fd
    finally:
        os.close(fd)
