"""A file system whose power can be cut: what it had not given to its disk at that instant is lost.

The disk is a file, behind a loop device. The file lies in a second file system, which is frozen for the
moment in which the file is copied: so the copy is what the disk held at one instant. Freezing flushes the
outer file system alone; the inner one is not asked, and what it keeps in memory is not in the copy.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

# linux/fs.h
_FREEZE, _THAW = 0xC0045877, 0xC0045878
_BLOCK = 1 << 20


class Disk:
    """An ext4 file system, mounted at ``place``; the test needs root, mount and mkfs.ext4."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self.place = folder / "disk"
        self._outer, self._below, self._copy = folder / "outer.img", folder / "outer", folder / "cut.img"
        self._image = self._below / "disk0.img"
        self._megabytes, self._cuts = megabytes, 0

    def make(self) -> None:
        for folder in (self.place, self._below):
            folder.mkdir(parents=True)
        _format(self._outer, self._megabytes * 3 + 16)
        _mount(self._outer, self._below, "loop")
        _format(self._image, self._megabytes)
        self.mount()

    def mount(self) -> None:
        # Without its heuristics: by default ext4 flushes a file that is renamed over another one.
        _mount(self._image, self.place, "loop,noauto_da_alloc")

    def hold(self) -> None:
        """Keep a copy of what the disk holds at this instant; programs go on meanwhile."""
        folder = os.open(self._below, os.O_RDONLY)
        try:
            fcntl.ioctl(folder, _FREEZE, 0)
            try:
                _copy(self._image, self._copy)
            finally:
                fcntl.ioctl(folder, _THAW, 0)
        finally:
            os.close(folder)

    def restore(self) -> None:
        """Mount what ``hold`` kept, in place of the disk as it is; no program may use it any more.

        The copy becomes another disk: a mount namespace that some other program made meanwhile keeps the
        first one mounted, and it writes on.
        """
        _unmount(self.place)
        self._image.unlink()
        self._cuts += 1
        self._image = self._below / f"disk{self._cuts}.img"
        _copy(self._copy, self._image)
        self.mount()

    def cut(self) -> None:
        """Cut the power of a disk that nobody uses now."""
        self.hold()
        self.restore()

    def remove(self) -> None:
        for place in (self.place, self._below):
            if place.is_mount():
                _unmount(place)
        for image in (self._outer, self._copy):
            image.unlink(missing_ok=True)


def _format(image: Path, megabytes: int) -> None:
    with image.open("wb") as stream:
        stream.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(image)], check=True)


def _mount(image: Path, place: Path, options: str) -> None:
    subprocess.run(["mount", "-o", options, str(image), str(place)], check=True)


def _unmount(place: Path) -> None:
    # Lazily: the loop device above a file may be released a moment later.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def _copy(source: Path, target: Path) -> None:
    """Copy the parts of a sparse file that have data."""
    with source.open("rb") as read, target.open("wb") as write:
        size = os.fstat(read.fileno()).st_size
        write.truncate(size)
        begin = 0
        with contextlib.suppress(OSError):  # ENXIO: only a hole follows
            while begin < size:
                begin = os.lseek(read.fileno(), begin, os.SEEK_DATA)
                end = os.lseek(read.fileno(), begin, os.SEEK_HOLE)
                for offset in range(begin, end, _BLOCK):
                    os.pwrite(
                        write.fileno(), os.pread(read.fileno(), min(_BLOCK, end - offset), offset), offset
                    )
                begin = end


@contextlib.contextmanager
def disk(folder: Path, megabytes: int = 64) -> Iterator[Disk]:
    """Make a disk and mount it at ``folder/disk`` until the block ends."""
    made = Disk(folder, megabytes)
    try:
        made.make()
        yield made
    finally:
        made.remove()
