"""Checks files that may be unreadable, missing, or inside an unpacked image, without any OSError."""

from __future__ import annotations

import os
from pathlib import Path

SLASH = Path("/")
_LINK_LIMIT = 40


# Path.is_file and its kin raise where a folder above may not be searched or a name is too long.
def is_file(path: Path) -> bool:
    """Whether this user can see a file there."""
    return os.path.isfile(path)  # noqa: PTH113


def is_dir(path: Path) -> bool:
    """Whether this user can see a folder there."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Path) -> bool:
    """Whether this user can see anything there."""
    return os.path.exists(path)  # noqa: PTH110


def is_link(path: Path) -> bool:
    """Whether this user can see a symbolic link there, wherever it leads."""
    return os.path.islink(path)  # noqa: PTH114


def real(path: Path | str) -> Path:
    """Return a path without links; what is missing stays as it is written."""
    return Path(os.path.realpath(path))


def folders(path: Path) -> tuple[Path, ...]:
    """Return the entries of a folder in order; none where it is missing, not a folder or not readable."""
    try:
        return tuple(sorted(path.iterdir()))
    except OSError:
        return ()


def resolve_inside(root_dir: Path, path: Path) -> Path:
    """Return ``path`` without links, where absolute links start at ``root_dir`` as they would in a chroot.

    ``path`` is a path of this machine below ``root_dir``. Link loops end at some path of the loop.
    """
    if root_dir == SLASH:
        return real(path)
    base = real(root_dir)
    below = path.relative_to(base if path.is_relative_to(base) else root_dir)
    todo = list(reversed(below.parts))
    current, links = base, 0
    while todo:
        part = todo.pop()
        if part == "..":
            current = current.parent if current != base else base
            continue
        target = current / part
        if is_link(target) and links < _LINK_LIMIT:
            links += 1
            link = target.readlink()
            if link.is_absolute():
                current = base
            todo.extend(reversed([name for name in link.parts if name != "/"]))
        else:
            current = target
    return current
