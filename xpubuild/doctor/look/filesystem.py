"""What file systems really do: run a program, tell capitals apart, keep the time, limit a user."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.errors import XpuBuildError
from xpubuild.host.readers import LIVE_ROOT, read_text
from xpubuild.host.tools import locate

_DEADLINE_S = 5.0
# Asked twice; a server that does not answer holds it up until the client gives up.
_LFS_DEADLINE_S = 3.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FIELDS = 4
_KIB = 1024


@dataclass(frozen=True)
class Written:
    """What a small file in a folder did. ``problem`` is empty, or why it could not be written or run.

    ``full`` says that there was no space for it. ``ahead_s`` is how far the file's time is ahead of this
    machine's clock, in seconds.
    """

    problem: str = ""
    full: bool = False
    ahead_s: float = 0.0


def write_small(folder: Path, *, run: bool = False, environ: Mapping[str, str] | None = None) -> Written:
    """Write a file into a folder, run it where asked for, and remove it."""
    try:
        handle, name = tempfile.mkstemp(prefix=".xpubuild-doctor-", dir=folder)
    except OSError as error:
        return Written(f"cannot be written to: {error.strerror}", full=error.errno in _FULL)
    place = Path(name)
    try:
        before = time.time()
        with os.fdopen(handle, "wb") as stream:
            stream.write(b"#!/bin/sh\nexit 0\n")
        ahead = place.stat().st_mtime - before
        place.chmod(0o700)
        return Written(_run(place, environ) if run else "", ahead_s=ahead)
    except OSError as error:
        return Written(f"cannot be written to: {error.strerror}", full=error.errno in _FULL)
    finally:
        place.unlink(missing_ok=True)


def _run(place: Path, environ: Mapping[str, str] | None) -> str:
    try:
        result = query([str(place)], env=base_environment(environ), deadline_s=_DEADLINE_S)
    except XpuBuildError as error:
        return f"does not run programs: {error.why or error.what}"
    return "" if result.ok else f"does not run programs: status {result.returncode}"


def ignores_capitals(folder: Path) -> bool:
    """Whether a folder's path means the same with other capitals; nothing is written."""
    other = folder.with_name(folder.name.swapcase())
    try:
        return other.name != folder.name and other.samefile(folder)
    except OSError:
        return False


@dataclass(frozen=True)
class Room:
    """What a quota leaves; None where it does not limit that."""

    bytes_free: int | None = None
    inodes_free: int | None = None


def quota_room(folder: Path, mount_point: str, filesystem: str | None, environ: Mapping[str, str]) -> Room:
    """Return what the quotas leave to the user below ``folder``.

    Asked is the program ``quota``, on Lustre, which it knows nothing of, ``lfs quota``.
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
    """Return the least that Lustre's quotas of the user, and of the folder's group, leave.

    Space of a project is usually given to its group, which new files below the folder get.
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
    """Return what one answer of ``lfs quota`` says (Lustre manual, "Configuring and Managing Quotas").

    Below a line of titles stand the path, which has a line of its own where it is long, 1 KiB blocks, soft
    limit, hard limit, grace, and the same of files. A star marks what is exceeded; brackets mark a use that
    is not exact, because a server did not answer.
    """
    _, titles, rest = text.partition("Filesystem")
    if not titles:
        return Room()
    _, _, below = rest.partition("\n")
    return _left(below.split()[1:])


def _left(columns: list[str]) -> Room:
    """Return what two groups of use, soft limit, hard limit and grace leave, blocks first."""
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
    """Return what a program prints; nothing where it does not end in time."""
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
