"""Whether the kernel ended processes for want of memory: a SIGKILL alone does not tell who sent it."""

from __future__ import annotations

import re
from pathlib import Path

_VMSTAT = Path("/proc/vmstat")
#: Counts the whole machine and every memory cgroup, since Linux 4.13.
_KILLS = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)


def kills(vmstat: Path = _VMSTAT) -> int | None:
    """Return how many processes the kernel has ended for want of memory since it started; None if unknown."""
    try:
        found = _KILLS.search(vmstat.read_text("ascii", "replace"))
    except OSError:
        return None
    return int(found[1]) if found is not None else None


def since(before: int | None) -> int | None:
    """Return how many there were since ``kills`` returned ``before``; None if unknown."""
    now = kills()
    return None if before is None or now is None else max(0, now - before)
