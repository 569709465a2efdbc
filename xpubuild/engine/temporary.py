"""Temporary folders and files: removed when their block ends, or by the next process if one was killed.

The name identifies the process that made it: process id, start time, and a digest of the boot and the
namespaces to which these two belong. What other machines, containers or boots made in a shared folder is
kept, because their processes may still run.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: What the names of unfinished files begin with.
DRAFT = ".xpubuild-"
#: Folders have a purpose in their names, drafts of files a dot before it.
_NAME = re.compile(
    r"(?:xpubuild-[a-z]+|(?P<file>\.xpubuild))-(?P<pid>\d+)-(?P<start>\d+)-(?P<world>[0-9a-f]{8})-.+"
)
_PROC = Path("/proc")
# proc(5): fields after the name, which may hold spaces and brackets; the state is the 3rd field of the file.
_STATE, _START = 0, 19
_ENDED = frozenset({"Z", "X"})


@contextlib.contextmanager
def scratch_folder(purpose: str, parent: Path | None = None) -> Iterator[Path]:
    """Yield a new folder for this user alone, after those of processes that are dead were removed.

    ``purpose`` is a word of its name; ``parent`` is the folder for temporary files where none is given.
    """
    place = parent or Path(tempfile.gettempdir())
    remove_dead(place)
    prefix = f"xpubuild-{purpose}-{_owner()}"
    with tempfile.TemporaryDirectory(prefix=prefix, dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def new_folder(purpose: str) -> Path:
    """Make a folder for this user alone that stays until this process ends, whatever it executes."""
    remove_dead(Path(tempfile.gettempdir()))
    return Path(tempfile.mkdtemp(prefix=f"xpubuild-{purpose}-{_owner()}"))


def new_draft(folder: Path) -> tuple[int, Path]:
    """Make an empty file for this user alone; return its descriptor and place.

    What killed processes left in the folder is removed, once in the life of this one.
    """
    _remove_dead_once(folder, os.getpid())
    descriptor, name = tempfile.mkstemp(prefix=f"{DRAFT}{_owner()}", dir=folder)
    return descriptor, Path(name)


@functools.lru_cache(maxsize=1024)
def _remove_dead_once(folder: Path, _process: int) -> None:
    remove_dead(folder)


def remove_dead(folder: Path) -> None:
    """Remove what this user's processes that have ended left in a folder; what cannot be removed stays."""
    world = _world()
    with contextlib.suppress(OSError):
        for path in folder.iterdir() if world is not None else ():
            name = _NAME.fullmatch(path.name)
            if name is None or name["world"] != world:
                continue
            # What a /proc that hides the processes of others (hidepid) does not show may live. A process of
            # the same number that started at another time is another process.
            with contextlib.suppress(OSError):
                status, is_right = path.lstat(), stat.S_ISREG if name["file"] else stat.S_ISDIR
                ours = is_right(status.st_mode) and status.st_uid == os.getuid()
                if not ours or _start(int(name["pid"])) == int(name["start"]):
                    continue
                if name["file"]:
                    path.unlink()
                else:
                    shutil.rmtree(path, ignore_errors=True)


def _owner() -> str:
    """Return what a name says of this process; nothing where that cannot be known."""
    world = _world()
    start = _start(os.getpid()) if world is not None else None
    return f"{os.getpid()}-{start}-{world}-" if start is not None else ""


def _world() -> str | None:
    """Return a digest of what process ids and start times hold in; None where that cannot be known.

    Start times are shown as a time namespace has them, and a ``/proc`` of other processes shows those.
    """
    try:
        if (_PROC / "self").readlink() != Path(str(os.getpid())):
            return None
        boot = (_PROC / "sys/kernel/random/boot_id").read_bytes().decode()
        parts = [boot, str((_PROC / "self/ns/pid").readlink())]
    except OSError:
        return None
    with contextlib.suppress(OSError):  # before Linux 5.6 there is none
        parts.append(str((_PROC / "self/ns/time").readlink()))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]


def _start(pid: int) -> int | None:
    """Return when a process started, in clock ticks since the boot; None where it has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text.rpartition(b")")[2].decode("ascii", "replace").split()
    return None if fields[_STATE] in _ENDED else int(fields[_START])
