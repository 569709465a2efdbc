"""Requirements of a build: memory, disk space, suitable file systems."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.look.filesystem import Room, ignores_capitals, quota_room, write_small
from xpubuild.doctor.look.places import inside, plural
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.machine.disk import DiskFacts
from xpubuild.machine.jobs import LargeUnit, plan_jobs
from xpubuild.recipe.versions import fits

_GIB = 1 << 30
#: What one compiler process of PyTorch may need, and the disk that a build takes: recipes/base.yaml.
GIB_PER_JOB = 4.0
DISK_GIB = 40.0
# A checkout with submodules and what is built from it; PyTorch's has more than 60,000 files.
_INODES_PER_GIB = 5000
_NETWORK = frozenset({
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "9p", "ceph", "fuse.ceph", "afs", "panfs",
    "fuse.sshfs", "fuse.glusterfs", "pvfs2", "orangefs", "wekafs", "vboxsf", "virtiofs",
})  # fmt: skip


class BuildMemory(Check):
    """The usable memory is enough for the jobs of a build."""

    id = "build.memory"
    title = "There is enough memory for a build"
    profiles = frozenset({"build"})
    families = ("I-memory-or-disk",)
    explanation = """
    Reads the memory that this process may still use (that of the machine, and the tightest limit of its
    control groups) and the usable cores, and computes the number of jobs as a build would. Less memory
    than one compiler process needs is a failure: 4 GiB for PyTorch, or the value in the recipe. It is a
    warning if there is less memory than the largest source file of the recipe needs (flash attention
    through sycl-tla: up to 40 GiB), or only enough for one job on many cores.
    """

    def run(self, context: CheckContext) -> Outcome:
        memory, cpu = context.host.memory, context.host.cpu
        usable = memory.usable_bytes
        if usable is None:
            return self.skip("the amount of usable memory is unknown")
        per_job, large = _demands(context)
        plan = plan_jobs(cpu.usable, usable, "auto", int(per_job * _GIB), large)
        limited = memory.cgroup_limit_bytes is not None and memory.cgroup_limit_bytes < (
            memory.total_bytes or 0
        )
        swap = 0 if limited else memory.swap_free_bytes or 0
        evidence = {
            "usable_bytes": usable,
            "cgroup_limit_bytes": memory.cgroup_limit_bytes,
            "cores": cpu.usable,
            "jobs": plan.jobs,
            "reason": plan.reason,
        }
        where = "the control group" if limited else "this machine"
        more = Fix("give the container or batch job more memory, or build on another machine", _more(limited))
        if usable + swap <= per_job * _GIB:
            detail = f"{where} has {_gib(usable)} GiB for {plural(cpu.usable or 1, 'core')}"
            return self.found(f"{detail}; one compiler process may need {per_job:g} GiB", more, **evidence)
        if large is not None and usable + swap < large.largest_bytes:
            need = _gib(large.largest_bytes)
            detail = f"{_gib(usable)} GiB may not be enough for {large.what}, which needs up to {need} GiB"
            return self.warn(detail, more, **evidence)
        if plan.jobs == 1 and (cpu.usable or 1) >= 4:  # noqa: PLR2004 - slow enough to report
            return self.warn(f"the build can only run one job at a time: {plan.reason}", more, **evidence)
        return self.ok(plan.reason, **evidence)


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f}".removesuffix(".0")


def _more(limited: bool) -> tuple[str, ...]:
    if limited:
        return ("docker run --memory 64g ...", "sbatch --mem=64G ...")
    return ("free -h", "ps -eo rss,comm --sort=-rss | head")


def _demands(context: CheckContext) -> tuple[float, LargeUnit | None]:
    """Return GiB per job and the largest sources of what the recipe compiles here by default."""
    recipe = context.recipe.recipe if context.recipe else None
    if recipe is None:
        return GIB_PER_JOB, None
    built = [
        item.build
        for item in recipe.components.values()
        if item.kind == "source" and not item.optional and recipe.target in item.targets
    ]
    gcc = next((item.version for item in context.host.compilers if item.name == "g++"), None)
    units = [
        LargeUnit(unit.what, int(unit.gib_each * _GIB), int(unit.gib_largest * _GIB))
        for build in built
        for unit in build.large_units
        if recipe.target in unit.targets and fits(gcc, unit.gcc) != "no"
    ]
    largest = max(units, key=lambda unit: unit.largest_bytes, default=None)
    return max((build.memory_gib_per_job for build in built), default=GIB_PER_JOB), largest


class BuildDisk(Check):
    """Space, inodes and quota are enough for the workspace."""

    id = "build.disk"
    title = "There is enough disk space for a build"
    profiles = frozenset({"build"})
    families = ("I-memory-or-disk",)
    explanation = """
    Checks the file system of `--workspace`, of the active workspace, or else of the current folder: the
    space and inodes available to an unprivileged user, and what quotas allow: the user's quota as
    reported by `quota`, and on Lustre the quotas of the user and of the folder's group as reported by
    `lfs quota`.

    The recipe states how much space is needed. Without a recipe, less than the 40 GiB that a build of
    PyTorch needs is a warning, or a failure with `--profile build`.
    """

    def run(self, context: CheckContext) -> Outcome:
        disk = context.host.disk
        if disk.free_bytes is None:
            return self.skip(f"the free space at {disk.path} is unknown")
        need = context.recipe.recipe.needs.disk_gib if context.recipe else DISK_GIB
        quota = Room()
        if context.live:
            quota = quota_room(Path(disk.path), disk.mount_point, disk.filesystem, context.environ)
        evidence = {
            "path": disk.path,
            "free_bytes": disk.free_bytes,
            "inodes_free": disk.inodes_free,
            "quota_free_bytes": quota.bytes_free,
            "quota_inodes_free": quota.inodes_free,
            "needed_gib": need,
        }
        problems = [*_lacking(disk, need, quota)]
        if not problems:
            return self.ok(f"{_gib(disk.free_bytes)} GiB free at {disk.path}", **evidence)
        fix = Fix(
            "free some space, or use a folder on a larger file system",
            (
                shlex.join(["df", "-h", disk.path]),
                shlex.join(["df", "-i", disk.path]),
                "xpubuild doctor --workspace /path/on/larger/disk",
            ),
        )
        told = f"{disk.path}: {'; '.join(problems)}"
        if context.recipe is None and not context.to_build:
            return self.warn(told, fix, **evidence)
        return self.found(told, fix, **evidence)


def _lacking(disk: DiskFacts, need: float, quota: Room) -> Iterator[str]:
    if disk.free_bytes is not None and disk.free_bytes < need * _GIB:
        yield f"{_gib(disk.free_bytes)} GiB free, {need:g} GiB needed"
    elif quota.bytes_free is not None and quota.bytes_free < need * _GIB:
        yield f"your quota leaves {_gib(quota.bytes_free)} GiB, {need:g} GiB needed"
    inodes = int(need * _INODES_PER_GIB)
    if disk.inodes_free is not None and disk.inodes_free < inodes:
        yield f"{disk.inodes_free} inodes free, {inodes} needed"
    elif quota.inodes_free is not None and quota.inodes_free < inodes:
        yield f"your quota leaves {plural(quota.inodes_free, 'file')}, {inodes} needed"


class BuildTmpdir(Check):
    """The folder for temporary files is writable, can run programs, and has space."""

    id = "build.tmpdir"
    title = "TMPDIR is writable and can run programs"
    live = True
    families = ("I-memory-or-disk",)
    explanation = """
    Writes a two-line program into `TMPDIR` (or `/tmp`), runs it and removes it. CMake's try-run tests,
    pip's builds, and the compiled launchers of Triton and Inductor run from there. On a file system
    that is mounted `noexec` they fail with misleading messages. Less than 4 GiB of space is a warning:
    compilers and `ocloc` write large intermediate files there, and a `/tmp` in memory is part of a
    container's memory limit.
    """

    def run(self, context: CheckContext) -> Outcome:
        folder = Path(context.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - what programs take by default
        elsewhere = Fix(
            "set TMPDIR to a folder of yours that is not mounted noexec",
            ('mkdir -p "$HOME/tmp"', 'export TMPDIR="$HOME/tmp"'),
        )
        if not folder.is_dir():
            return self.found(f"TMPDIR is {folder}, which is not a folder", elsewhere, path=str(folder))
        facts = context.measure(folder)
        written = write_small(folder, run=True, environ=context.environ)
        evidence = {"path": str(folder), "free_bytes": facts.free_bytes, "filesystem": facts.filesystem}
        if written.problem:
            return self.found(f"{folder} {written.problem}", elsewhere, **evidence)
        if facts.free_bytes is not None and facts.free_bytes < 4 * _GIB:
            detail = f"{folder} has {_gib(facts.free_bytes)} GiB left ({facts.filesystem})"
            return self.warn(detail, elsewhere, **evidence)
        return self.ok(f"{folder} is writable and can run programs", **evidence)


class BuildFilesystem(Check):
    """The file system of the workspace is writable, can run programs, and is case-sensitive."""

    id = "build.filesystem"
    title = "The workspace's file system is suitable for builds"
    live = True
    profiles = frozenset({"build"})
    families = ("I-memory-or-disk", "H-torch-xpu-ops-and-submodule-checkout")
    explanation = """
    Writes a small file to the location of the workspace, removes it, and reads how the file system is
    mounted. Read-only or `noexec` mounts and missing write permission are failures. These are warnings:
    a case-insensitive file system, which loses files of a checkout, and a network file system, which
    makes a build of 100,000 small files slow and its locks and file times unreliable.
    """

    def run(self, context: CheckContext) -> Outcome:
        disk = context.host.disk
        folder = Path(disk.path)
        elsewhere = Fix(
            "use a workspace on a local file system",
            ("xpubuild install RECIPE --workspace /path/on/local/disk",),
        )
        evidence = {"path": disk.path, "filesystem": disk.filesystem, "mount_point": disk.mount_point}
        if disk.read_only:
            return self.found(f"{disk.path} is mounted read-only", elsewhere, **evidence)
        if disk.noexec:
            return self.found(
                f"{disk.path} is mounted noexec: programs cannot run there", elsewhere, **evidence
            )
        written = write_small(folder)
        # build.disk reports a full file system.
        if written.problem and not written.full:
            return self.found(f"{disk.path} {written.problem}", elsewhere, **evidence)
        if ignores_capitals(folder):
            return self.warn(f"{disk.path} is on a case-insensitive file system", elsewhere, **evidence)
        if disk.filesystem in _NETWORK:
            return self.warn(
                f"{disk.path} is on {disk.filesystem}, a network file system", elsewhere, **evidence
            )
        return self.ok(f"{disk.path} is on {disk.filesystem}", **evidence)


class BuildClock(Check):
    """The clock is right and agrees with file times."""

    id = "build.clock"
    title = "The clock and the file times are consistent"
    live = True
    profiles = frozenset({"build"})
    families = ("Z-single",)
    explanation = """
    Ninja and make compare file times, and TLS compares the dates of certificates. This check compares
    the clock with the time of a new file in the workspace (on a network file system, another machine's
    clock), with the newest files of xpubuild itself (to find a clock that is behind), and with the
    top-level files of an existing workspace: files with times in the future are rebuilt again and
    again. A difference of more than two seconds is a warning, of more than a minute a failure.
    """

    def run(self, context: CheckContext) -> Outcome:
        now = time.time()
        fix = Fix("set the clock of this machine or of the file server", ("date -u", "timedatectl status"))
        newest = max(entry.stat().st_mtime for entry in Path(__file__).parent.iterdir())
        if newest - now > 24 * 3600:
            detail = f"the clock is at {_day(now)}, but xpubuild's own files are from {_day(newest)}"
            return self.found(detail, fix, clock=now, newest=newest)
        folder = Path(context.host.disk.path)
        ahead = write_small(folder).ahead_s
        future = [name for name, when in _times(context) if when - now > 60]  # noqa: PLR2004 - one minute
        evidence = {"ahead_s": round(ahead, 1) or 0.0, "future": future}
        if abs(ahead) > 60:  # noqa: PLR2004 - one minute
            return self.found(
                f"the time of a new file in {folder} differs from the clock by {ahead:+.0f} s",
                fix,
                **evidence,
            )
        if future:
            touch = Fix(
                "set the clock, then give these files the current time", (f"touch {' '.join(future[:5])}",)
            )
            return self.found(f"files with times in the future: {', '.join(future[:5])}", touch, **evidence)
        if abs(ahead) > 2:  # noqa: PLR2004 - enough to confuse make and ninja
            return self.warn(
                f"the time of a new file in {folder} differs from the clock by {ahead:+.1f} s",
                fix,
                **evidence,
            )
        return self.ok("the clock and file times are consistent", **evidence)


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _times(context: CheckContext) -> Iterator[tuple[str, float]]:
    """Yield the files at the top of the workspace and of its checkouts and build trees, with their times."""
    if context.workspace is None:
        return
    top = inside(context, context.workspace)
    for folder in (top, *_folders(top / "src"), *_folders(top / "build")):
        try:
            with os.scandir(folder) as found:
                for entry in found:
                    yield entry.path, entry.stat(follow_symlinks=False).st_mtime
        except OSError:
            continue


def _folders(parent: Path) -> list[Path]:
    try:
        return [entry for entry in parent.iterdir() if entry.is_dir()]
    except OSError:
        return []
