"""Whether there is room to build: memory, disk, and file systems that behave."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.context import Context
from xpubuild.doctor.look.filesystem import Room, ignores_capitals, quota_room, write_small
from xpubuild.doctor.look.places import inside, plural
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.host.disk import DiskFacts
from xpubuild.host.jobs import LargeUnit, plan_jobs
from xpubuild.recipe.fits import fits

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
    """The memory that may be used is enough for the jobs of a build."""

    id = "build.memory"
    title = "Memory and cores are enough to build"
    profiles = frozenset({"build"})
    families = ("I-memory-or-disk",)
    explanation = """\
Takes the memory that this process may still use (the machine's, and the tightest limit of its control
groups) and the usable cores, and makes the plan of jobs that a build would make. Less memory than one
compiler process needs is a failure: 4 GiB for PyTorch, or what the recipe says. Memory below the
largest source of the recipe (flash attention through sycl-tla: up to 40 GiB) is a warning, as is one
job on many cores.
"""

    def run(self, context: Context) -> Outcome:
        memory, cpu = context.host.memory, context.host.cpu
        usable = memory.usable_bytes
        if usable is None:
            return self.skip("how much memory may be used is not known")
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
        more = Fix(
            "give the container or the batch job more memory, or build on another machine", _more(limited)
        )
        if usable + swap <= per_job * _GIB:
            detail = f"{where} leaves {_gib(usable)} GiB for {plural(cpu.usable or 1, 'core')}"
            return self.found(f"{detail}; one compiler process may need {per_job:g} GiB", more, **evidence)
        if large is not None and usable + swap < large.largest_bytes:
            need = _gib(large.largest_bytes)
            detail = f"{_gib(usable)} GiB may not do for {large.what}, which needs up to {need} GiB"
            return self.warn(detail, more, **evidence)
        if plan.jobs == 1 and (cpu.usable or 1) >= 4:  # noqa: PLR2004 - slow enough to be told
            return self.warn(f"only one job at a time: {plan.reason}", more, **evidence)
        return self.ok(plan.reason, **evidence)


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f}".removesuffix(".0")


def _more(limited: bool) -> tuple[str, ...]:
    if limited:
        return ("docker run --memory 64g ...", "sbatch --mem=64G ...")
    return ("free -h", "ps -eo rss,comm --sort=-rss | head")


def _demands(context: Context) -> tuple[float, LargeUnit | None]:
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
    title = "There is disk space for a build"
    profiles = frozenset({"build"})
    families = ("I-memory-or-disk",)
    explanation = """\
Looks at the file system that holds, or will hold, the workspace: the space and inodes that a user
without privileges may take, and what quotas leave: the user's as `quota` tells it, on Lustre the user's
and that of the folder's group as `lfs quota` does.
The recipe says how much is needed; without one 40 GiB are what a build of PyTorch takes, and less is a
warning, or with `--profile build` a failure.
"""

    def run(self, context: Context) -> Outcome:
        disk = context.host.disk
        if disk.free_bytes is None:
            return self.skip(f"the free space at {disk.path} is not known")
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
            return self.ok(f"{_gib(disk.free_bytes)} GiB are free at {disk.path}", **evidence)
        fix = Fix(
            "free some space, or name a folder on a larger file system",
            (f"df -h {disk.path}", f"df -i {disk.path}", "xpubuild doctor --workspace /path/on/larger/disk"),
        )
        told = f"{disk.path}: {'; '.join(problems)}"
        if context.recipe is None and not context.to_build:
            return self.warn(told, fix, **evidence)
        return self.found(told, fix, **evidence)


def _lacking(disk: DiskFacts, need: float, quota: Room) -> Iterator[str]:
    if disk.free_bytes is not None and disk.free_bytes < need * _GIB:
        yield f"{_gib(disk.free_bytes)} GiB are free, {need:g} are needed"
    elif quota.bytes_free is not None and quota.bytes_free < need * _GIB:
        yield f"your quota leaves {_gib(quota.bytes_free)} GiB, {need:g} are needed"
    inodes = int(need * _INODES_PER_GIB)
    if disk.inodes_free is not None and disk.inodes_free < inodes:
        yield f"{disk.inodes_free} inodes are free, {inodes} are needed"
    elif quota.inodes_free is not None and quota.inodes_free < inodes:
        yield f"your quota leaves {plural(quota.inodes_free, 'file')}, {inodes} are needed"


class BuildTmpdir(Check):
    """The folder for temporary files takes files, runs programs, and has space."""

    id = "build.tmpdir"
    title = "TMPDIR takes files and runs programs"
    live = True
    families = ("I-memory-or-disk",)
    explanation = """\
Writes a two-line program into `TMPDIR` (else `/tmp`), runs it and removes it. CMake's try-run tests,
pip's builds and Triton's and Inductor's compiled launchers are started from there; on a file system
that is mounted `noexec` they fail with messages that name something else. Less than 4 GiB of space is a
warning: compilers and `ocloc` put large intermediate files there, and a `/tmp` in memory counts against
the memory of a container.
"""

    def run(self, context: Context) -> Outcome:
        folder = Path(context.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - what programs take by default
        elsewhere = Fix(
            "let TMPDIR lead to a folder of yours that runs programs",
            ('mkdir -p "$HOME/tmp"', 'export TMPDIR="$HOME/tmp"'),
        )
        if not folder.is_dir():
            return self.found(f"TMPDIR is {folder}, which is no folder", elsewhere, path=str(folder))
        facts = context.measure(folder)
        written = write_small(folder, run=True, environ=context.environ)
        evidence = {"path": str(folder), "free_bytes": facts.free_bytes, "filesystem": facts.filesystem}
        if written.problem:
            return self.found(f"{folder} {written.problem}", elsewhere, **evidence)
        if facts.free_bytes is not None and facts.free_bytes < 4 * _GIB:
            detail = f"{folder} has {_gib(facts.free_bytes)} GiB left ({facts.filesystem})"
            return self.warn(detail, elsewhere, **evidence)
        return self.ok(f"{folder} takes files and runs programs", **evidence)


class BuildFilesystem(Check):
    """The file system of the workspace takes files, runs programs, and tells capitals apart."""

    id = "build.filesystem"
    title = "The workspace's file system is fit to build on"
    live = True
    profiles = frozenset({"build"})
    families = ("I-memory-or-disk", "H-torch-xpu-ops-and-submodule-checkout")
    explanation = """\
Writes a small file to where the workspace is, or will be, removes it, and reads how that file system is
mounted. Read-only, `noexec` and a missing right to write are failures. A file system that does not tell
capitals apart loses files of a checkout, and network file systems make a build of 100,000 small files
slow and their locks and times unreliable: warnings.
"""

    def run(self, context: Context) -> Outcome:
        disk = context.host.disk
        folder = Path(disk.path)
        elsewhere = Fix(
            "name a workspace on a local file system",
            ("xpubuild install RECIPE --workspace /path/on/local/disk",),
        )
        evidence = {"path": disk.path, "filesystem": disk.filesystem, "mount_point": disk.mount_point}
        if disk.read_only:
            return self.found(f"{disk.path} is mounted read-only", elsewhere, **evidence)
        if disk.noexec:
            return self.found(
                f"{disk.path} is mounted noexec: nothing can be run there", elsewhere, **evidence
            )
        written = write_small(folder)
        # No space is what build.disk is about.
        if written.problem and not written.full:
            return self.found(f"{disk.path} {written.problem}", elsewhere, **evidence)
        if ignores_capitals(folder):
            return self.warn(f"{disk.path} does not tell capitals apart", elsewhere, **evidence)
        if disk.filesystem in _NETWORK:
            return self.warn(
                f"{disk.path} is on {disk.filesystem}, a network file system", elsewhere, **evidence
            )
        return self.ok(f"{disk.path} is on {disk.filesystem}", **evidence)


class BuildClock(Check):
    """The clock is right, and files get its time."""

    id = "build.clock"
    title = "The clock and the file times agree"
    live = True
    profiles = frozenset({"build"})
    families = ("Z-single",)
    explanation = """\
Ninja and make compare the times of files, and TLS the dates of certificates. Compared are the clock
with the time that a fresh file gets at the workspace (another machine's clock on a network file
system), with the newest files of xpubuild itself (a clock that is behind its own software), and with
the top of an existing workspace: files from the future are built again and again. More than two seconds
is a warning, more than a minute a failure.
"""

    def run(self, context: Context) -> Outcome:
        now = time.time()
        fix = Fix("set the clock, of this machine or of the file server", ("date -u", "timedatectl status"))
        newest = max(entry.stat().st_mtime for entry in Path(__file__).parent.iterdir())
        if newest - now > 24 * 3600:
            detail = f"the clock says {_day(now)}, and xpubuild's own files are of {_day(newest)}"
            return self.found(detail, fix, clock=now, newest=newest)
        folder = Path(context.host.disk.path)
        ahead = write_small(folder).ahead_s
        future = [name for name, when in _times(context) if when - now > 60]  # noqa: PLR2004 - one minute
        evidence = {"ahead_s": round(ahead, 1), "future": future}
        if abs(ahead) > 60:  # noqa: PLR2004 - one minute
            return self.found(f"a fresh file in {folder} is {ahead:+.0f} s off the clock", fix, **evidence)
        if future:
            touch = Fix(
                "give them the present time, after the clock is right", (f"touch {' '.join(future[:5])}",)
            )
            return self.found(f"files from the future: {', '.join(future[:5])}", touch, **evidence)
        if abs(ahead) > 2:  # noqa: PLR2004 - what make and ninja stumble over
            return self.warn(f"a fresh file in {folder} is {ahead:+.1f} s off the clock", fix, **evidence)
        return self.ok("they agree", **evidence)


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _times(context: Context) -> Iterator[tuple[str, float]]:
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
