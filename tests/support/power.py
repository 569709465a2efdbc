"""A file system whose power can be cut: what was not flushed is lost, as after a crash of the machine."""

from __future__ import annotations

import contextlib
import fcntl
import os
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# EXT4_IOC_SHUTDOWN with EXT4_GOING_FLAGS_NOLOGFLUSH (linux/fs/ext4/ext4.h): nothing more gets to the disk.
_SHUTDOWN = 0x8004587D
_LOSE_THE_LOG = 2


@dataclass(frozen=True)
class Disk:
    """An ext4 file system in a file, mounted at ``place`` over a loop device."""

    image: Path
    place: Path

    def mount(self) -> None:
        # Without its heuristics: by default ext4 flushes a file that is renamed over another one.
        words = ["mount", "-o", "loop,noauto_da_alloc", str(self.image), str(self.place)]
        subprocess.run(words, check=True)

    def unmount(self) -> None:
        subprocess.run(["umount", str(self.place)], check=True)

    def cut(self) -> None:
        """Stop the file system as it is on the disk now, and mount it again."""
        fd = os.open(self.place, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _LOSE_THE_LOG))
        finally:
            os.close(fd)
        self.unmount()
        self.mount()


@contextlib.contextmanager
def disk(folder: Path, megabytes: int = 64) -> Iterator[Disk]:
    """Make a disk and mount it; the test needs mount and mkfs.ext4."""
    made = Disk(folder / "disk.img", folder / "disk")
    made.place.mkdir(parents=True)
    with made.image.open("wb") as stream:
        stream.truncate(megabytes << 20)
    subprocess.run(["mkfs.ext4", "-q", "-F", str(made.image)], check=True)
    made.mount()
    try:
        yield made
    finally:
        made.unmount()
