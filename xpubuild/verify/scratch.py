"""Scratch folders of verify: removed when it ends, and by the next verify where it was killed.

The name of a folder says which process made it, so there is no moment in which it has no owner: process id,
start time, and a digest of the boot and the namespaces in which these two mean that process. What another
machine, container or boot has made in a shared temporary folder is left alone: nobody here can know whether
it still runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "xpubuild-verify-"
_NAME = re.compile(rf"{_PREFIX}(?P<pid>\d+)-(?P<start>\d+)-(?P<world>[0-9a-f]{{8}})-.+")
_PROC = Path("/proc")
_BOOT = _PROC / "sys/kernel/random/boot_id"
# proc(5): fields after the name, which may hold spaces and brackets; the state is the 3rd field of the file.
_STATE, _START = 0, 19
_ENDED = frozenset({"Z", "X"})


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Yield a new folder in the temporary folder, after those of processes that are dead were removed."""
    world = _world()
    remove_dead(world)
    start = _start(os.getpid()) if world is not None else None
    owner = f"{os.getpid()}-{start}-{world}-" if start is not None else ""
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{owner}", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def remove_dead(world: str | None) -> None:
    """Remove this user's folders whose process is known to have ended; what cannot be removed stays."""
    if world is None:
        return
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        name = _NAME.fullmatch(path.name)
        if name is None or name["world"] != world or not _is_ours(path):
            continue
        try:
            start = _start(int(name["pid"]))
        except OSError:
            continue  # a /proc that hides the processes of others (hidepid): it may live
        # A process of the same number that started at another time is another process.
        if start != int(name["start"]):
            shutil.rmtree(path, ignore_errors=True)


def _is_ours(path: Path) -> bool:
    with contextlib.suppress(OSError):
        status = path.lstat()
        return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    return False


def _world() -> str | None:
    """Return a digest of what process ids and start times hold in; None where that cannot be known.

    Start times are shown as a time namespace has them, and a ``/proc`` of other processes tells of those.
    """
    try:
        if (_PROC / "self").readlink() != Path(str(os.getpid())):
            return None
        parts = [_BOOT.read_text("ascii"), str((_PROC / "self/ns/pid").readlink())]
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
