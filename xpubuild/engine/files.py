"""Durable file operations: made beside their place, flushed, then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from xpubuild.errors import NoSpaceError, ToolchainError

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_REFUSED = frozenset(
    {
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.EEXIST,
        errno.ENAMETOOLONG,
        errno.ELOOP,
    }
)


@contextlib.contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """Turn the operating system's refusals for ``path`` into errors a user can act on.

    Raises:
        NoSpaceError: the disk or quota is full.
        ToolchainError: no permission, a read-only file system, a file where a folder must be or the other
            way round, a name that is too long.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise NoSpaceError(
                f"no space left while {doing}",
                why=f"{path}: {error.strerror}",
                fix="free some space (or choose a larger disk with --workspace), then run the same command"
                " again; finished steps are kept",
                commands=(f"df -h {shlex.quote(str(path.parent))}",),
            ) from error
        if error.errno in _REFUSED:
            raise ToolchainError(
                f"{path} cannot be written",
                why=f"{error.strerror}, while {doing}",
                fix="choose a folder that you may write to with --workspace, or mend its permissions",
            ) from error
        raise


def fsync_dir(folder: Path) -> None:
    """Flush a folder's entries, so that a rename survives a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole file: readers see the old content or the new, never a part."""
    with explained(path, f"writing {path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(fd, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        fsync_dir(path.parent)


def publish_file(source: Path, folder: Path) -> Path:
    """Move a finished file into ``folder`` (same file system) after flushing it; return its new place."""
    with explained(folder, f"publishing {source.name}"):
        folder.mkdir(parents=True, exist_ok=True)
        with source.open("rb") as stream:
            os.fsync(stream.fileno())
        target = folder / source.name
        source.replace(target)
        fsync_dir(folder)
        return target


def copy_durable(source: Path, folder: Path) -> Path:
    """Copy a file into ``folder`` under its name; readers see no part of it."""
    with explained(folder, f"copying {source.name}"):
        folder.mkdir(parents=True, exist_ok=True)
        # A name of its own: two installs may copy into one shared folder.
        fd, name = tempfile.mkstemp(prefix=f".{source.name}.", dir=folder)
        beside = Path(name)
        try:
            with os.fdopen(fd, "wb") as target, source.open("rb") as stream:
                shutil.copyfileobj(stream, target)
                target.flush()
                os.fsync(target.fileno())
            beside.chmod(0o644)
            copied = beside.replace(folder / source.name)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
        fsync_dir(folder)
    return copied


def remove_tree(path: Path) -> None:
    """Remove a file or folder of our own; a link is removed, never followed."""
    with explained(path, f"removing {path}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
