"""Requirements of a build: memory, disk space, suitable file systems, a clock that is right."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import BUILD, Look, Outcome, check, finding, ok, plural, skip, todo, warn
from xpubuild.doctor.look.filesystem import Room, ignores_capitals, quota_room, write_small
from xpubuild.machine.disk import DiskFacts
from xpubuild.machine.jobs import LargeUnit, plan_jobs
from xpubuild.machine.versions import fits

_GIB = 1 << 30
#: What one compiler process of PyTorch may need, and the disk that a build takes: recipes/base.yaml.
GIB_PER_JOB = 4.0
DISK_GIB = 40.0
# A checkout with submodules and what is built from it; PyTorch's has more than 60,000 files.
_INODES_PER_GIB = 5000
_MANY_CORES = 4
_MINUTE_S, _MOST_AHEAD_S = 60, 2  # two seconds are enough to confuse make and ninja
_NETWORK = frozenset({
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "cifs", "smb3", "9p", "ceph", "fuse.ceph", "afs", "panfs",
    "fuse.sshfs", "fuse.glusterfs", "pvfs2", "orangefs", "wekafs", "vboxsf", "virtiofs",
})  # fmt: skip


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f}".removesuffix(".0")


@check("build.memory", profiles=BUILD)
def build_memory(look: Look) -> Outcome:
    """There is enough memory for a build.

    Reads the memory that this process may still use (that of the machine, and the tightest limit of its
    control groups) and the usable cores, and computes the number of jobs as a build would. Less memory
    than one compiler process needs is a failure: 4 GiB for PyTorch, or the value in the recipe. It is a
    warning if there is less memory than the largest source file of the recipe needs (flash attention
    through sycl-tla: up to 40 GiB), or only enough for one job on many cores.
    """
    memory, cores = look.host.memory, look.host.cpu.usable
    usable, limit = memory.usable_bytes, memory.cgroup_limit_bytes
    if usable is None:
        return skip("the amount of usable memory is unknown")
    per_job, large = _demands(look)
    plan = plan_jobs(cores, usable, "auto", int(per_job * _GIB), large)
    limited = limit is not None and limit < (memory.total_bytes or 0)
    whole = usable + (0 if limited else memory.swap_free_bytes or 0)
    evidence = {
        "usable_bytes": usable, "cgroup_limit_bytes": limit, "cores": cores, "jobs": plan.jobs,
        "reason": plan.reason,
    }  # fmt: skip
    where, lines = "this machine", ("free -h", "ps -eo rss,comm --sort=-rss | head")
    if limited:
        where, lines = "the control group", ("docker run --memory 64g ...", "sbatch --mem=64G ...")
    more = todo("give the container or batch job more memory, or build on another machine", *lines)
    if whole <= per_job * _GIB:
        detail = f"{where} has {_gib(usable)} GiB for {plural(cores or 1, 'core')}"
        return finding(f"{detail}; one compiler process may need {per_job:g} GiB", more, **evidence)
    if large is not None and whole < large.largest_bytes:
        need = f"which needs up to {_gib(large.largest_bytes)} GiB"
        return warn(f"{_gib(usable)} GiB may not be enough for {large.what}, {need}", more, **evidence)
    if plan.jobs == 1 and (cores or 1) >= _MANY_CORES:
        return warn(f"the build can only run one job at a time: {plan.reason}", more, **evidence)
    return ok(plan.reason, **evidence)


def _demands(look: Look) -> tuple[float, LargeUnit | None]:
    """Return GiB per job and the largest sources of what the recipe compiles here by default."""
    recipe = look.wanted
    if recipe is None:
        return GIB_PER_JOB, None
    built = [
        item.build
        for item in recipe.components.values()
        if item.kind == "source" and not item.optional and recipe.target in item.targets
    ]
    gcc = next((item.version for item in look.host.compilers if item.name == "g++"), None)
    units = [
        LargeUnit(unit.what, int(unit.gib_each * _GIB), int(unit.gib_largest * _GIB))
        for build in built
        for unit in build.large_units
        if recipe.target in unit.targets and fits(gcc, unit.gcc) != "no"
    ]
    largest = max(units, key=lambda unit: unit.largest_bytes, default=None)
    return max((build.memory_gib_per_job for build in built), default=GIB_PER_JOB), largest


@check("build.disk", profiles=BUILD)
def build_disk(look: Look) -> Outcome:
    """There is enough disk space for a build.

    Checks the file system of `--workspace`, of the active workspace, or else of the current folder: the
    space and inodes available to an unprivileged user, and what quotas allow: the user's quota as
    reported by `quota`, and on Lustre the quotas of the user and of the folder's group as reported by
    `lfs quota`.

    The recipe states how much space is needed. Without a recipe, less than the 40 GiB that a build of
    PyTorch needs is a warning, or a failure with `--profile build`.
    """
    disk = look.host.disk
    if disk.free_bytes is None:
        return skip(f"the free space at {disk.path} is unknown")
    need = look.wanted.needs.disk_gib if look.wanted else DISK_GIB
    quota = Room()
    if look.live:
        quota = quota_room(Path(disk.path), disk.mount_point, disk.filesystem, look.environ)
    evidence = {
        "path": disk.path, "free_bytes": disk.free_bytes, "inodes_free": disk.inodes_free,
        "quota_free_bytes": quota.bytes_free, "quota_inodes_free": quota.inodes_free, "needed_gib": need,
    }  # fmt: skip
    problems = [*_lacking(disk, need, quota)]
    if not problems:
        return ok(f"{_gib(disk.free_bytes)} GiB free at {disk.path}", **evidence)
    fix = todo(
        "free some space, or use a folder on a larger file system",
        shlex.join(["df", "-h", disk.path]),
        shlex.join(["df", "-i", disk.path]),
        "xpubuild doctor --workspace /path/on/larger/disk",
    )
    answer = warn if look.recipe is None and not look.to_build else finding
    return answer(f"{disk.path}: {'; '.join(problems)}", fix, **evidence)


def _lacking(disk: DiskFacts, need: float, quota: Room) -> Iterator[str]:
    for free, shown in ((disk.free_bytes, "{} GiB free"), (quota.bytes_free, "your quota leaves {} GiB")):
        if free is not None and free < need * _GIB:
            yield f"{shown.format(_gib(free))}, {need:g} GiB needed"
            break
    inodes = int(need * _INODES_PER_GIB)
    if disk.inodes_free is not None and disk.inodes_free < inodes:
        yield f"{disk.inodes_free} inodes free, {inodes} needed"
    elif quota.inodes_free is not None and quota.inodes_free < inodes:
        yield f"your quota leaves {plural(quota.inodes_free, 'file')}, {inodes} needed"


@check("build.tmpdir", live=True)
def build_tmpdir(look: Look) -> Outcome:
    """TMPDIR is writable and can run programs.

    Writes a two-line program into `TMPDIR` (or `/tmp`), runs it and removes it. CMake's try-run tests,
    pip's builds, and the compiled launchers of Triton and Inductor run from there. On a file system
    that is mounted `noexec` they fail with misleading messages. Less than 4 GiB of space is a warning:
    compilers and `ocloc` write large intermediate files there, and a `/tmp` in memory is part of a
    container's memory limit.
    """
    folder = Path(look.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - what programs take by default
    lines = ('mkdir -p "$HOME/tmp"', 'export TMPDIR="$HOME/tmp"')
    elsewhere = todo("set TMPDIR to a folder of yours that is not mounted noexec", *lines)
    if not folder.is_dir():
        return finding(f"TMPDIR is {folder}, which is not a folder", elsewhere, path=str(folder))
    facts = look.measure(folder)
    written = write_small(folder, run=True, environ=look.environ)
    evidence = {"path": str(folder), "free_bytes": facts.free_bytes, "filesystem": facts.filesystem}
    if written.problem:
        return finding(f"{folder} {written.problem}", elsewhere, **evidence)
    if facts.free_bytes is not None and facts.free_bytes < 4 * _GIB:
        detail = f"{folder} has {_gib(facts.free_bytes)} GiB left ({facts.filesystem})"
        return warn(detail, elsewhere, **evidence)
    return ok(f"{folder} is writable and can run programs", **evidence)


@check("build.filesystem", profiles=BUILD, live=True)
def build_filesystem(look: Look) -> Outcome:
    """The workspace's file system is suitable for builds.

    Writes a small file to the location of the workspace, removes it, and reads how the file system is
    mounted. Read-only or `noexec` mounts and missing write permission are failures. These are warnings:
    a case-insensitive file system, which loses files of a checkout, and a network file system, which
    makes a build of 100,000 small files slow and its locks and file times unreliable.
    """
    disk = look.host.disk
    folder = Path(disk.path)
    line = "xpubuild install RECIPE --workspace /path/on/local/disk"
    elsewhere = todo("use a workspace on a local file system", line)
    evidence = {"path": disk.path, "filesystem": disk.filesystem, "mount_point": disk.mount_point}
    if disk.read_only:
        return finding(f"{disk.path} is mounted read-only", elsewhere, **evidence)
    if disk.noexec:
        return finding(f"{disk.path} is mounted noexec: programs cannot run there", elsewhere, **evidence)
    written = write_small(folder)
    # build.disk reports a full file system.
    if written.problem and not written.full:
        return finding(f"{disk.path} {written.problem}", elsewhere, **evidence)
    if ignores_capitals(folder):
        return warn(f"{disk.path} is on a case-insensitive file system", elsewhere, **evidence)
    if disk.filesystem in _NETWORK:
        return warn(f"{disk.path} is on {disk.filesystem}, a network file system", elsewhere, **evidence)
    return ok(f"{disk.path} is on {disk.filesystem}", **evidence)


@check("build.clock", profiles=BUILD, live=True)
def build_clock(look: Look) -> Outcome:
    """The clock and the file times are consistent.

    Ninja and make compare file times, and TLS compares the dates of certificates. This check compares
    the clock with the time of a new file in the workspace (on a network file system, another machine's
    clock). A difference of more than two seconds is a warning, of more than a minute a failure.
    """
    fix = todo("set the clock of this machine or of the file server", "date -u", "timedatectl status")
    folder = Path(look.host.disk.path)
    ahead = write_small(folder).ahead_s
    evidence = {"ahead_s": round(ahead, 1) or 0.0}
    if abs(ahead) <= _MOST_AHEAD_S:
        return ok("the clock and file times are consistent", **evidence)
    answer = finding if abs(ahead) > _MINUTE_S else warn
    return answer(
        f"the time of a new file in {folder} differs from the clock by {ahead:+.0f} s", fix, **evidence
    )
