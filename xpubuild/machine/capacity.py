"""Cores and memory: what the machine has, and how much of it this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, entries, exists, read_int, read_text

# Version 1 writes "no limit" as the largest multiple of the page size.
_NO_LIMIT = 1 << 60


@frozen
class CgroupLimits:
    """``cpus`` is the quota in CPUs (1.5 is possible). ``memory_room_bytes`` is what may still be allocated.

    Page cache that the kernel gives back under pressure counts as room. None: no limit, or it cannot be read.
    """

    cpus: float | None = None
    memory_limit_bytes: int | None = None
    memory_room_bytes: int | None = None


def cgroup_limits(root: Path = LIVE_ROOT) -> CgroupLimits:
    """Return the tightest limits from this process's group up to the top."""
    groups = _groups(root)
    mount = root / "sys/fs/cgroup"
    unified = mount if exists(mount / "cgroup.controllers", root) else mount / "unified"
    folders_v2 = _levels(unified, groups.get("", "/"), root)
    cpus = [quota for folder in folders_v2 if (quota := _quota_v2(folder, root))]
    folders_v1 = _levels_v1(mount, "cpu", groups, root)
    cpus += [quota for folder in folders_v1 if (quota := _quota_v1(folder, root)) is not None]
    memory = [pair for folder in folders_v2 if (pair := _memory_v2(folder, root))]
    folders_v1 = _levels_v1(mount, "memory", groups, root)
    memory += [pair for folder in folders_v1 if (pair := _memory_v1(folder, root))]
    return CgroupLimits(
        cpus=min(cpus, default=None),
        memory_limit_bytes=min((limit for limit, _ in memory), default=None),
        memory_room_bytes=min((room for _, room in memory), default=None),
    )


def _groups(root: Path) -> dict[str, str]:
    """Return controller -> path of the group; version 2 has the empty controller."""
    found: dict[str, str] = {}
    for line in (read_text(root / "proc/self/cgroup", root) or "").splitlines():
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for name in controllers.split(",") if number != "0" else ("",):
            found[name] = path
    return found


def _levels(base: Path, group: str, root: Path) -> list[Path]:
    """Return the folders from the group up to ``base``.

    In a container /proc may name a group of the host that is not mounted here; ``base`` itself is then ours.
    """
    parts = [part for part in group.split("/") if part]
    if ".." in parts or not exists(base.joinpath(*parts), root):
        return [base]
    return [base.joinpath(*parts[:length]) for length in range(len(parts), -1, -1)]


def _levels_v1(mount: Path, controller: str, groups: dict[str, str], root: Path) -> list[Path]:
    for folder in entries(mount, root):
        # "cpu" may be mounted as "cpu,cpuacct".
        if controller in folder.name.split(",") and controller in groups:
            return _levels(folder, groups[controller], root)
    return []


def _quota_v2(folder: Path, root: Path) -> float | None:
    quota, _, period = (read_text(folder / "cpu.max", root) or "").partition(" ")
    if quota.isdigit() and period.isdigit() and int(period):
        return int(quota) / int(period)
    return None


def _quota_v1(folder: Path, root: Path) -> float | None:
    quota = read_int(folder / "cpu.cfs_quota_us", root=root)
    period = read_int(folder / "cpu.cfs_period_us", root=root)
    return quota / period if quota and period and quota > 0 else None


def _memory_v2(folder: Path, root: Path) -> tuple[int, int] | None:
    names = ("memory.max", "memory.high")
    limits = [value for name in names if (value := read_int(folder / name, root=root))]
    used = read_int(folder / "memory.current", root=root)
    return _with_room(limits, used, _counter(folder, "inactive_file", root))


def _memory_v1(folder: Path, root: Path) -> tuple[int, int] | None:
    limit = read_int(folder / "memory.limit_in_bytes", root=root)
    limits = [limit] if limit is not None and limit < _NO_LIMIT else []
    used = read_int(folder / "memory.usage_in_bytes", root=root)
    return _with_room(limits, used, _counter(folder, "total_inactive_file", root))


def _with_room(limits: list[int], used: int | None, given_back: int) -> tuple[int, int] | None:
    if not limits:
        return None
    limit = min(limits)
    return limit, max(0, limit - max(0, (used or 0) - given_back))


def _counter(folder: Path, wanted: str, root: Path) -> int:
    for line in (read_text(folder / "memory.stat", root) or "").splitlines():
        name, _, value = line.partition(" ")
        if name == wanted and value.isdigit():
            return int(value)
    return 0


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
