"""Durable file operations: files are written to a temporary name, flushed, then renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

from xpubuild.engine.places import another_place, existing_quoted, make_shared
from xpubuild.engine.temporary import new_draft
from xpubuild.errors import NoSpaceError, ToolchainError

_REFUSED = (
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENAMETOOLONG,
    errno.ELOOP,
)  # fmt: skip
_ODD = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def odd_kind(path: Path) -> str:
    """Return what a path is that is neither file nor folder: reading it may last for ever. "" for others."""
    try:
        mode = path.stat().st_mode
    except OSError:  # a link that leads nowhere too
        return ""
    return next((kind for is_kind, kind in _ODD if is_kind(mode)), "")


def odd_file(path: Path, kind: str) -> ToolchainError:
    """Return the error for a name of xpubuild's that something other than a file has."""
    return ToolchainError(
        f"{path} is {kind}",
        why="a file of xpubuild has this name, and something else was put in its place",
        fix="remove it, then run the same command again",
        commands=(f"rm {shlex.quote(str(path))}",),
    )


def no_space(what: str, why: str, place: str | Path = "", advice: str = "free some space") -> NoSpaceError:
    """Return the error for a full disk; ``place`` is where, if that is known."""
    fix = f"{advice}, then run the same command again; finished steps are kept"
    commands = (f"df -h {existing_quoted(place)}" if place else "df -h",)
    return NoSpaceError(what, why=why, fix=fix, commands=commands)


@contextlib.contextmanager
def explained(path: Path, doing: str) -> Iterator[None]:
    """Turn errors of the operating system for ``path`` into errors a user can act on.

    Raises:
        NoSpaceError: the disk or quota is full.
        ToolchainError: no permission, a read-only file system, a file where a folder must be or the other
            way round, a name that is too long, a link where none is followed, a disk that fails.
    """
    try:
        yield
    except OSError as error:
        if (found := _refusal(error, path, doing)) is None:
            raise
        raise found from error


def _refusal(error: OSError, path: Path, doing: str) -> NoSpaceError | ToolchainError | None:
    there = another_place(path)
    what, why = f"{path} cannot be written", f"{error.strerror}, while {doing}"
    fix = f"use a folder that you can write to {there}, or fix its permissions"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        advice = f"free some space (or choose a larger disk {there})"
        return no_space(f"no space left while {doing}", f"{path}: {error.strerror}", path.parent, advice)
    if error.errno == errno.EIO:
        return ToolchainError(
            f"{what}: the disk reports an error",
            why=why,
            fix=f"look at the kernel's messages for the cause, or use another disk {there}",
            commands=("dmesg --ctime | tail -20",),
        )
    # Nothing is written through a link.
    kind = f"a link to {path.readlink()}" if path.is_symlink() else odd_kind(path)
    if error.errno == errno.ELOOP and kind:
        return odd_file(path, kind)
    return ToolchainError(what, why=why, fix=fix) if error.errno in _REFUSED else None


def sync_filesystems(paths: Iterable[Path]) -> None:
    """Flush the file systems that hold these paths, each once; what does not exist is left out.

    For trees of many files, written by programs that flush none of them (git, pip): one call instead of an
    fsync of each file.

    Raises:
        NoSpaceError, ToolchainError: something that was written did not get to the disk.
    """
    import ctypes  # noqa: PLC0415 - only what writes much needs it; Python has no syncfs

    syncfs = ctypes.CDLL(None, use_errno=True).syncfs
    places: dict[int, Path] = {}
    for path in paths:
        with contextlib.suppress(OSError):
            places.setdefault(path.stat().st_dev, path)
    for path in places.values():
        with explained(path, "flushing it to the disk"):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                if syncfs(fd) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number), str(path))
            finally:
                os.close(fd)


def read_json(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file of our own; an empty one where there is none that can be read."""
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def stamp(path: Path | str) -> list[int] | None:
    """Return what changes with a file: device, inode, size (bytes), both times (ns); None where it is gone.

    A link is followed. No program can set the last of them, the change time.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 - some hundred files: a Path of each takes longer than the look
    except OSError:
        return None
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def fsync_dir(folder: Path) -> None:
    """Flush a folder's entries, so that a rename survives a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


@contextlib.contextmanager
def replacing(
    target: Path, put: Callable[[Path, Path], object] = lambda draft, place: draft.replace(place)
) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``target``, flushed, when the block ends well; or goes with it.

    Its name is its own: two processes may write to one folder. That of a killed process goes with the next
    one that writes there. ``put`` gives it the name.
    """
    descriptor, draft = new_draft(target.parent)
    try:
        with os.fdopen(descriptor, "wb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        draft.chmod(0o644)
        put(draft, target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    fsync_dir(target.parent)


def write_atomic(path: Path, data: bytes) -> None:
    """Write a whole file: readers see the old content or the new, never a part."""
    with explained(path, f"writing {path.name}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as stream:
            stream.write(data)


def write_changed(path: Path, data: bytes) -> None:
    """As ``write_atomic``; a file that has this content already is left alone, and nothing is flushed."""
    with contextlib.suppress(OSError):
        if not path.is_symlink() and path.is_file() and path.read_bytes() == data:
            return
    write_atomic(path, data)


def write_json(path: Path, document: Any) -> None:
    """Write a JSON document, as ``write_atomic`` does."""
    write_atomic(path, (json.dumps(document, indent=1, sort_keys=True) + "\n").encode())


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
        make_shared(folder)
        with replacing(folder / source.name) as target, source.open("rb") as stream:
            shutil.copyfileobj(stream, target)
    return folder / source.name


def remove_tree(path: Path) -> None:
    """Remove a file or folder of our own; a link is removed, never followed."""
    with explained(path, f"removing {path}"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
