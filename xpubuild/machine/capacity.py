"""Cores and memory: what the machine has, and how much of it this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.machine.cgroup import CgroupLimits
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, read_text


@frozen
class CpuFacts:
    """``affinity`` is how many CPUs the scheduler may use for this process, ``quota`` the cgroup's share.

    ``usable`` is the smaller of both, a broken quota rounded up: half a core more waits, it does no harm.
    """

    model: str = UNKNOWN
    logical: int | None = None
    physical: int | None = None
    affinity: int | None = None
    quota: float | None = None
    usable: int | None = None


@frozen
class MemoryFacts:
    """Bytes. ``usable_bytes`` is what can be had without swapping, within the cgroup's limit."""

    total_bytes: int | None = None
    available_bytes: int | None = None
    swap_total_bytes: int | None = None
    swap_free_bytes: int | None = None
    cgroup_limit_bytes: int | None = None
    usable_bytes: int | None = None


def cpu_facts(root: Path, limits: CgroupLimits) -> CpuFacts:
    """Return the CPU facts below ``root``; affinity is known for the running machine only."""
    blocks = [
        dict(_pairs(block)) for block in (read_text(root / "proc/cpuinfo", root) or "").split("\n\n") if block
    ]
    processors = [block for block in blocks if "processor" in block]
    cores = {(block.get("physical id", ""), block["core id"]) for block in processors if "core id" in block}
    affinity = len(os.sched_getaffinity(0)) if root == LIVE_ROOT else None
    logical = len(processors) or None
    bounds = [bound for bound in (affinity or logical, limits.cpus) if bound is not None]
    return CpuFacts(
        model=next((block["model name"] for block in processors if "model name" in block), UNKNOWN),
        logical=logical,
        physical=len(cores) or None,
        affinity=affinity,
        quota=limits.cpus,
        usable=max(1, math.ceil(min(bounds))) if bounds else None,
    )


def memory_facts(root: Path, limits: CgroupLimits) -> MemoryFacts:
    """Return the memory facts below ``root``."""
    table = dict(_pairs(read_text(root / "proc/meminfo", root) or ""))
    available = _bytes(table.get("MemAvailable"))
    bounds = [bound for bound in (available, limits.memory_room_bytes) if bound is not None]
    return MemoryFacts(
        total_bytes=_bytes(table.get("MemTotal")),
        available_bytes=available,
        swap_total_bytes=_bytes(table.get("SwapTotal")),
        swap_free_bytes=_bytes(table.get("SwapFree")),
        cgroup_limit_bytes=limits.memory_limit_bytes,
        usable_bytes=min(bounds, default=None),
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = (line.partition(":") for line in text.splitlines())
    return [(name.strip(), value.strip()) for name, colon, value in pairs if colon]


def _bytes(value: str | None) -> int | None:
    number = (value or "").split(" ", 1)[0]
    return int(number) * 1024 if number.isdigit() else None
