"""What file systems really do: run a program, tell capitals apart, keep the time, limit a user."""

from __future__ import annotations

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


def quota_room(folder: Path, mount_point: str, environ: Mapping[str, str]) -> int | None:
    """Return the bytes that the user's quota leaves on the file system of ``mount_point``; None without one.

    Asks the program ``quota``, whose output with -p and -w is one line per file system:
    device, blocks of 1 KiB, soft limit, hard limit, ...
    """
    program = locate(("quota",), environ.get("PATH", "")).get("quota")
    source = _source(mount_point)
    if program is None or not source:
        return None
    try:
        result = query(
            [program, "-u", "-w", "-p"], env=base_environment(environ), cwd=folder, deadline_s=_DEADLINE_S
        )
    except XpuBuildError:
        return None
    for line in result.stdout.splitlines():
        words = line.split()
        if len(words) >= _FIELDS and words[0] == source:
            used, soft, hard = (
                int(word.rstrip("*")) if word.rstrip("*").isdigit() else 0 for word in words[1:4]
            )
            limit = hard or soft
            return max(0, limit - used) * _KIB if limit else None
    return None


def _source(mount_point: str) -> str:
    """Return the device, or SERVER:/EXPORT, that is mounted at a mount point."""
    found = ""
    for line in (read_text(LIVE_ROOT / "proc/self/mounts") or "").splitlines():
        words = line.split(" ")
        if len(words) > 1 and words[1] == mount_point:
            found = words[0]
    return found
