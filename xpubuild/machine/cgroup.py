"""Limits of the control group this process is in, and of every group above it: the tightest one applies.

Version 2 is read from ``cpu.max``, ``memory.max`` and ``memory.high`` (a build above ``memory.high`` is
throttled until it stands still), version 1 from ``cpu.cfs_quota_us`` and ``memory.limit_in_bytes``; kernel
documentation: admin-guide/cgroup-v2 and cgroup-v1/memory.
"""

from __future__ import annotations

from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, entries, exists, read_int, read_text

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
