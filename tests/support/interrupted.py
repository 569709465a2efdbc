"""Work that is stopped at every one of its changes to files: by a full disk, and by SIGKILL.

Changes are seen as audit events of the interpreter, so no call of the program is replaced.
"""

from __future__ import annotations

import errno
import functools
import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xpubuild.engine import temporary
from xpubuild.errors import XpuBuildError

#: What can find a disk full; SIGKILL can come before any change.
_MAKES = frozenset({"open", "os.mkdir", "os.rename", "os.link", "os.symlink", "os.chmod"})
_CHANGES = _MAKES | {"os.remove", "os.rmdir", "shutil.rmtree", "os.truncate", "subprocess.Popen"}
_WRITES = os.O_WRONLY | os.O_RDWR

Work = Callable[[Path], object]


class _Stop:
    """Counts events below a folder, and does something at one of them, once."""

    def __init__(self, root: Path, events: frozenset[str], at: int, act: Callable[[], None]) -> None:
        self._root, self._events, self._left, self._act = str(root), events, at, act
        self.fired = False

    def seen(self, event: str, args: tuple[Any, ...]) -> None:
        if self.fired or event not in self._events or (event == "open" and not (args[2] or 0) & _WRITES):
            return
        if event != "subprocess.Popen" and not str(args[0]).startswith(self._root):
            return
        self._left -= 1
        if self._left < 0:
            self.fired = True
            self._act()


_stops: list[_Stop] = []


def _hook(event: str, args: tuple[Any, ...]) -> None:
    if _stops:
        _stops[-1].seen(event, args)


@functools.cache
def _installed() -> None:
    sys.addaudithook(_hook)


@contextmanager
def _stopped(stop: _Stop) -> Iterator[_Stop]:
    _installed()
    _stops.append(stop)
    try:
        yield stop
    finally:
        _stops.clear()


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def names(root: Path) -> set[str]:
    """Return every path below a folder."""
    return {str(path.relative_to(root)) for path in root.rglob("*")}


@contextmanager
def place(root: Path) -> Iterator[Path]:
    """Make an empty folder with the folder for temporary files in it, in use while the block lasts."""
    shutil.rmtree(root, ignore_errors=True)
    temporary._remove_dead_once.cache_clear()  # as in a new process
    (root / "tmp").mkdir(parents=True)
    earlier, tempfile.tempdir = tempfile.tempdir, str(root / "tmp")
    os.environ["TMPDIR"] = tempfile.tempdir
    try:
        yield root
    finally:
        tempfile.tempdir = earlier
        del os.environ["TMPDIR"]


def failures(work: Work, root: Path, at: int) -> tuple[set[str], set[str]] | None:
    """Let change number ``at`` find a full disk; return names before and after, None if there is none."""
    before = names(root)
    with _stopped(_Stop(root, _MAKES, at, _full)) as stop:
        try:
            work(root)
        except (OSError, XpuBuildError):
            assert stop.fired
    return (before, names(root)) if stop.fired else None


def killed(work: Work, root: Path, at: int) -> bool:
    """Do it in a child that is killed before the change number ``at``; return False where it has fewer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside other threads
        child = os.fork()
    if not child:
        status = 3
        try:
            with _stopped(_Stop(root, _CHANGES, at, _kill)):
                work(root)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL), f"it failed, with {status}"
    return status == signal.SIGKILL
