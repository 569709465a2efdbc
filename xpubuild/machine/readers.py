"""Small readers of /proc, /sys and /etc that return None instead of raising.

Each takes the root of the inspected system. Below another root than / (an unpacked image, a recorded tree)
links are followed as a chroot would follow them, so nothing of this machine is taken for the image's.
Only regular files are opened: a FIFO would wait for a writer, a device may do something.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

#: What a text fact says when it could not be read; numbers and yes/no facts are None (null in JSON) then.
UNKNOWN = "unknown"
LIVE_ROOT = Path("/")
#: No file that is read whole is nearly as large; what is larger is none of those that are meant.
MOST_BYTES = 64 << 20
_CHUNK_BYTES = 1 << 16
# As many as the kernel follows (path_resolution(7)).
_MOST_LINKS = 40
# Below a device there is nothing, and looking there does no harm.
_NOWHERE = Path("/dev/null/nowhere")


def inside(path: Path, root: Path) -> Path:
    """Return where ``path``, a path of this machine below ``root``, is after all links of a chroot there.

    Absolute links start at ``root`` and none leads above it. What is missing stays as it is written. A loop
    of links, and a path that is not below ``root``, are a place that does not exist. The live root is not
    resolved: there the kernel does it.
    """
    if root == LIVE_ROOT:
        return path
    if not path.is_relative_to(root):
        return _NOWHERE
    todo = list(reversed(path.relative_to(root).parts))
    current, links = root, 0
    while todo:
        part = todo.pop()
        if part == "..":
            current = current.parent if current != root else root
            continue
        try:
            target = (current / part).readlink()
        except OSError:  # no link, or nothing at all
            current /= part
            continue
        links += 1
        if links > _MOST_LINKS:
            return _NOWHERE
        current = root if target.is_absolute() else current
        todo.extend(reversed([name for name in target.parts if name != target.anchor]))
    return current


def resolved(path: Path, root: Path = LIVE_ROOT) -> Path:
    """Return a path without links; what is missing stays as it is written."""
    return Path(os.path.realpath(path)) if root == LIVE_ROOT else inside(path, root)


def read_text(path: Path, root: Path = LIVE_ROOT) -> str | None:
    """Return a regular file's text without surrounding space, or None where it cannot be read.

    A file of more than ``MOST_BYTES`` counts as one that cannot be read.
    """
    data = read_bytes(path, root)
    return None if data is None else data.decode("utf-8", "replace").replace("\r\n", "\n").strip()


def read_bytes(path: Path, root: Path = LIVE_ROOT, *, first: int | None = None) -> bytes | None:
    """Return what a regular file holds, or its ``first`` bytes; None where it cannot be read."""
    try:
        # Without O_NONBLOCK a FIFO without a writer would not even open.
        number = os.open(inside(path, root), os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError):  # ValueError: a NUL in a name that a file gave
        return None
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode) or (first is None and status.st_size > MOST_BYTES):
            return None
        return _read(number, first)
    except OSError:
        return None
    finally:
        os.close(number)


def _read(number: int, first: int | None) -> bytes | None:
    found = bytearray()
    # The size that sysfs and /proc state is not that of the text: read until nothing comes.
    while (first is None or len(found) < first) and (data := os.read(number, _CHUNK_BYTES)):
        found += data
        if len(found) > MOST_BYTES:
            return None
    return bytes(found[:first])


def read_int(path: Path, base: int = 10, root: Path = LIVE_ROOT) -> int | None:
    """Return the whole number in a file, or None; sysfs writes some with a 0x prefix (base 16)."""
    text = read_text(path, root)
    if text is None:
        return None
    try:
        return int(text, base)
    except ValueError:
        return None


def link_name(path: Path, root: Path = LIVE_ROOT) -> str | None:
    """Return the last part of what a symbolic link points to, or None where there is none."""
    try:
        return (inside(path.parent, root) / path.name).readlink().name
    except (OSError, ValueError):
        return None


def entries(folder: Path, root: Path = LIVE_ROOT) -> list[Path]:
    """Return the sorted entries of a folder; none where it cannot be listed.

    An entry may be a link itself: give ``root`` to what reads it.
    """
    try:
        # By their names: to compare paths takes ten times as long, and /usr/lib has thousands.
        return sorted(inside(folder, root).iterdir(), key=lambda path: path.name)
    except (OSError, ValueError):
        return []


def exists(path: Path, root: Path = LIVE_ROOT) -> bool:
    """Whether a path is there; one that may not be looked at counts as missing."""
    try:
        return inside(path, root).exists()
    except (OSError, ValueError):
        return False


# Path.is_file and its kin raise where a folder above may not be searched or a name is too long.
def is_file(path: Path, root: Path = LIVE_ROOT) -> bool:
    """Whether this user can see a file there."""
    return os.path.isfile(inside(path, root))  # noqa: PTH113


def is_dir(path: Path, root: Path = LIVE_ROOT) -> bool:
    """Whether this user can see a folder there."""
    return os.path.isdir(inside(path, root))  # noqa: PTH112
