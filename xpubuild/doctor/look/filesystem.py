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
from xpubuild.machine.compilers import locate
from xpubuild.machine.readers import LIVE_ROOT, read_text

_DEADLINE_S = 5.0
# lfs is asked twice; a server that does not answer holds it up until the client gives up.
_QUOTA_DEADLINE_S = 3.0
_FULL = (errno.ENOSPC, errno.EDQUOT)
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
    """Return the user's remaining quota in ``folder``, by ``quota``, or on Lustre by ``lfs quota``.

    On Lustre the quota of the folder's group counts too: a project's quota is usually that of its group.
    """
    name = "lfs" if filesystem == "lustre" else "quota"
    program = locate((name,), environ.get("PATH", "")).get(name)
    if program is None:
        return Room()
    if name == "quota":
        # With -p and -w one line per file system: device, 1 KiB blocks, soft, hard, grace, files...
        lines = (line.split() for line in _answer([program, "-u", "-w", "-p"], folder, environ).splitlines())
        source = _source(mount_point)
        return next((_left(words[1:]) for words in lines if words and words[0] == source), Room())
    owners, rooms = [("-u", os.getuid())], []
    with contextlib.suppress(OSError):
        owners.append(("-g", folder.stat().st_gid))
    for kind, number in owners:
        text = _answer([program, "quota", kind, str(number), mount_point], folder, environ)
        # Below the header are the path, on a line of its own if it is long, and the same columns (Lustre
        # manual, "Configuring and Managing Quotas"); a star marks an exceeded limit, brackets a guess.
        rooms.append(_left(text.partition("Filesystem")[2].partition("\n")[2].split()[1:]))
    return Room(
        min((room.bytes_free for room in rooms if room.bytes_free is not None), default=None),
        min((room.inodes_free for room in rooms if room.inodes_free is not None), default=None),
    )


def _left(columns: list[str]) -> Room:
    """Return the remaining quota of two groups of usage, soft limit, hard limit and grace, blocks first."""
    blocks = _free(columns[0:3])
    return Room(None if blocks is None else blocks * _KIB, _free(columns[4:7]))


def _free(columns: list[str]) -> int | None:
    numbers = [word.strip("*[]") for word in columns]
    if len(numbers) < len(("used", "soft", "hard")) or not all(word.isdigit() for word in numbers):
        return None
    used, soft, hard = map(int, numbers)
    limit = hard or soft
    return max(0, limit - used) if limit else None


def _answer(argv: list[str], folder: Path, environ: Mapping[str, str]) -> str:
    """Return the output of a program; nothing if it times out."""
    try:
        return query(argv, env=base_environment(environ), cwd=folder, deadline_s=_QUOTA_DEADLINE_S).stdout
    except XpuBuildError:
        return ""


def _source(mount_point: str) -> str:
    """Return the device, or SERVER:/EXPORT, that is mounted last at a mount point."""
    mounts = (line.split(" ") for line in (read_text(LIVE_ROOT / "proc/self/mounts") or "").splitlines())
    return next((words[0] for words in reversed([*mounts]) if words[1:2] == [mount_point]), "")
