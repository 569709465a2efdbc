"""Properties of file systems: whether programs run, case sensitivity, file times, quotas."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import probe, query
from xpubuild.engine.temporary import new_draft
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, read_text
from xpubuild.machine.tools import locate

_DEADLINE_S = 5.0
# Asked twice; a server that does not answer holds it up until the client gives up.
_LFS_DEADLINE_S = 3.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FIELDS = 4
_KIB = 1024


@frozen
class Written:
    """The result of writing a small file. ``problem`` is empty, or why it could not be written or run.

    ``full`` is whether there was no space for it. ``ahead_s`` is how far the file's time is ahead of this
    machine's clock, in seconds.
    """

    problem: str = ""
    full: bool = False
    ahead_s: float = 0.0


def write_small(folder: Path, *, run: bool = False, environ: Mapping[str, str] | None = None) -> Written:
    """Write a file into a folder, run it if requested, and remove it."""
    try:
        handle, place = new_draft(folder)
    except OSError as error:
        return Written(f"is not writable: {error.strerror}", full=error.errno in _FULL)
    try:
        before = time.time()
        with os.fdopen(handle, "wb") as stream:
            stream.write(b"#!/bin/sh\nexit 0\n")
        ahead = place.stat().st_mtime - before
        place.chmod(0o700)
        return Written(_run(place, environ) if run else "", ahead_s=ahead)
    except OSError as error:
        return Written(f"is not writable: {error.strerror}", full=error.errno in _FULL)
    finally:
        place.unlink(missing_ok=True)


def _run(place: Path, environ: Mapping[str, str] | None) -> str:
    try:
        result = probe([str(place)], env=base_environment(environ), deadline_s=_DEADLINE_S)
    except XpuBuildError as error:
        return f"cannot run programs: {error.why or error.what}"
    return "" if result.ok else f"cannot run programs: exit code {result.returncode}"


def ignores_capitals(folder: Path) -> bool:
    """Whether a folder is on a case-insensitive file system; nothing is written."""
    other = folder.with_name(folder.name.swapcase())
    try:
        return other.name != folder.name and other.samefile(folder)
    except OSError:
        return False


@frozen
class Room:
    """The remaining quota; None means unlimited."""

    bytes_free: int | None = None
    inodes_free: int | None = None


def quota_room(folder: Path, mount_point: str, filesystem: str | None, environ: Mapping[str, str]) -> Room:
    """Return the user's remaining quota in ``folder``.

    Runs the program ``quota``, or on Lustre, which it does not support, ``lfs quota``.
    """
    if filesystem == "lustre":
        return _lustre_room(folder, mount_point, environ)
    program = locate(("quota",), environ.get("PATH", "")).get("quota")
    source = _source(mount_point)
    if program is None or not source:
        return Room()
    # With -p and -w one line per file system: device, 1 KiB blocks, soft and hard limit, grace, files, ...
    for line in _answer([program, "-u", "-w", "-p"], folder, environ, _DEADLINE_S).splitlines():
        words = line.split()
        if words and words[0] == source:
            return _left(words[1:])
    return Room()


def _lustre_room(folder: Path, mount_point: str, environ: Mapping[str, str]) -> Room:
    """Return the smaller of the remaining Lustre quotas of the user and of the folder's group.

    A project's quota is usually that of its group, which new files in the folder belong to.
    """
    program = locate(("lfs",), environ.get("PATH", "")).get("lfs")
    if program is None:
        return Room()
    owners = [("-u", os.getuid())]
    with contextlib.suppress(OSError):
        owners.append(("-g", folder.stat().st_gid))
    rooms = [
        _of_lustre(
            _answer([program, "quota", kind, str(number), mount_point], folder, environ, _LFS_DEADLINE_S)
        )
        for kind, number in owners
    ]
    return Room(
        min((room.bytes_free for room in rooms if room.bytes_free is not None), default=None),
        min((room.inodes_free for room in rooms if room.inodes_free is not None), default=None),
    )


def _of_lustre(text: str) -> Room:
    """Return the values in the output of ``lfs quota`` (Lustre manual, "Configuring and Managing Quotas").

    Below the header are the path (on a separate line if it is long), 1 KiB blocks, soft limit, hard limit,
    grace, and the same for files. A star marks an exceeded limit; brackets mark an inexact usage, because a
    server did not respond.
    """
    _, titles, rest = text.partition("Filesystem")
    if not titles:
        return Room()
    _, _, below = rest.partition("\n")
    return _left(below.split()[1:])


def _left(columns: list[str]) -> Room:
    """Return the remaining quota of two groups of usage, soft limit, hard limit and grace, blocks first."""
    blocks = _free(columns[0:3])
    return Room(None if blocks is None else blocks * _KIB, _free(columns[_FIELDS : _FIELDS + 3]))


def _free(columns: list[str]) -> int | None:
    numbers = [word.strip("*[]") for word in columns]
    if len(numbers) < _FIELDS - 1 or not all(word.isdigit() for word in numbers):
        return None
    used, soft, hard = map(int, numbers)
    limit = hard or soft
    return max(0, limit - used) if limit else None


def _answer(argv: list[str], folder: Path, environ: Mapping[str, str], deadline_s: float) -> str:
    """Return the output of a program; nothing if it times out."""
    try:
        return query(argv, env=base_environment(environ), cwd=folder, deadline_s=deadline_s).stdout
    except XpuBuildError:
        return ""


def _source(mount_point: str) -> str:
    """Return the device, or SERVER:/EXPORT, that is mounted at a mount point."""
    found = ""
    for line in (read_text(LIVE_ROOT / "proc/self/mounts") or "").splitlines():
        words = line.split(" ")
        if len(words) > 1 and words[1] == mount_point:
            found = words[0]
    return found
