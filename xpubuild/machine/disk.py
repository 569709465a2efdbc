"""The file system that holds (or will hold) a path."""

from __future__ import annotations

import os
import re
from pathlib import Path

from xpubuild.engine.places import existing
from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, read_text

# Field numbers of /proc/self/mountinfo count from 0 here; proc(5) counts from 1.
_MOUNT_POINT = 4
_ESCAPE = re.compile(r"\\([0-7]{3})")


@frozen
class DiskFacts:
    """``free_bytes`` is what a user without privileges may take.

    ``inodes_free`` is None where there is no limit. ``path`` is the nearest existing folder of the path that
    was asked for.
    """

    path: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    inodes_free: int | None = None
    filesystem: str = UNKNOWN
    mount_point: str = UNKNOWN
    read_only: bool | None = None
    noexec: bool | None = None


def disk_facts(path: Path, root: Path = LIVE_ROOT) -> DiskFacts:
    """Return the facts for ``path``, which need not exist yet; ``root`` is where /proc is read."""
    place = existing(path)
    filesystem, mount_point = _mount(place, root)
    try:
        stat = os.statvfs(place)
    except OSError:
        return DiskFacts(path=str(place), filesystem=filesystem, mount_point=mount_point)
    return DiskFacts(
        path=str(place),
        total_bytes=stat.f_blocks * stat.f_frsize,
        free_bytes=stat.f_bavail * stat.f_frsize,
        inodes_free=stat.f_favail if stat.f_files else None,
        filesystem=filesystem,
        mount_point=mount_point,
        read_only=bool(stat.f_flag & os.ST_RDONLY),
        noexec=bool(stat.f_flag & os.ST_NOEXEC),
    )


def _mount(place: Path, root: Path) -> tuple[str, str]:
    """Return type and mount point of the innermost mount above ``place`` (a later mount hides an earlier)."""
    best, kind = "", UNKNOWN
    for line in (read_text(root / "proc/self/mountinfo", root) or "").splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) <= _MOUNT_POINT or not right:
            continue
        point = _ESCAPE.sub(lambda match: chr(int(match[1], 8)), fields[_MOUNT_POINT])
        if len(point) >= len(best) and (place == Path(point) or Path(point) in place.parents):
            best, kind = point, right.split(" ", 1)[0]
    return kind, best or UNKNOWN
