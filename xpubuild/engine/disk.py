"""Room that files take on a disk."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def disk_usage(*paths: Path) -> int:
    """Return the bytes that files and folders take on their disk, 0 for what is not there.

    A file with several names among them counts once.
    """
    seen: set[tuple[int, int]] = set()
    total = 0
    for status in _statuses(paths):
        if status.st_nlink > 1:
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
        total += status.st_blocks * 512
    return total


def _statuses(paths: Iterable[Path]) -> Iterator[os.stat_result]:
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            yield from _below(path)
        else:
            with contextlib.suppress(OSError):
                yield path.lstat()


def _below(folder: Path) -> Iterator[os.stat_result]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for item in found:
            with contextlib.suppress(OSError):
                yield item.stat(follow_symlinks=False)
                if item.is_dir(follow_symlinks=False):
                    yield from _below(Path(item.path))
