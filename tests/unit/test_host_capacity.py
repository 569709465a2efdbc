"""Cores, memory, control groups: read from trees laid out as the kernel does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.files import lay

from xpubuild.machine.capacity import CgroupLimits, cgroup_limits, cpu_facts, memory_facts
from xpubuild.machine.jobs import LargeUnit, plan_jobs

GIB = 1 << 30
MODEL = "Intel(R) Xeon(R) Platinum 8480+"
CPUINFO = "\n".join(
    f"processor\t: {number}\nmodel name\t: {MODEL}\nphysical id\t: 0\ncore id\t\t: {core}\n"
    for number, core in enumerate((0, 1, 0))
)
MEMINFO = (
    "MemTotal:       65536 kB\nMemAvailable:   32768 kB\nSwapTotal:       1024 kB\nSwapFree:         512 kB\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "fake root ü"


def test_version_2_takes_the_tightest_of_nested_groups(root: Path) -> None:
    lay(
        root,
        {
            "proc/self/cgroup": "0::/user.slice/job.scope\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "sys/fs/cgroup/user.slice/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/user.slice/memory.max": f"{4 * GIB}\n",
            "sys/fs/cgroup/user.slice/memory.current": f"{3 * GIB}\n",
            "sys/fs/cgroup/user.slice/memory.stat": f"anon {GIB}\ninactive_file {GIB}\n",
            "sys/fs/cgroup/user.slice/job.scope/cpu.max": "400000 100000\n",
            "sys/fs/cgroup/user.slice/job.scope/memory.max": f"{8 * GIB}\n",
            "sys/fs/cgroup/user.slice/job.scope/memory.current": "0\n",
        },
    )
    assert cgroup_limits(root) == CgroupLimits(
        cpus=1.5, memory_limit_bytes=4 * GIB, memory_room_bytes=2 * GIB
    )


def test_a_group_of_the_host_that_is_not_mounted_here_falls_back_to_the_mount(root: Path) -> None:
    lay(
        root,
        {
            "proc/self/cgroup": "0::/../../kubepods/pod1\n",
            "sys/fs/cgroup/cgroup.controllers": "cpu\n",
            "sys/fs/cgroup/cpu.max": "200000 100000\n",
        },
    )
    assert cgroup_limits(root).cpus == 2


def test_cores_memory_and_what_may_be_used(root: Path) -> None:
    lay(root, {"proc/cpuinfo": CPUINFO, "proc/meminfo": MEMINFO})
    cpu = cpu_facts(root, CgroupLimits(cpus=1.5))
    assert (cpu.model, cpu.logical, cpu.physical, cpu.affinity) == (MODEL, 3, 2, None)
    assert cpu.usable == 2
    memory = memory_facts(root, CgroupLimits(memory_limit_bytes=999, memory_room_bytes=100))
    assert (memory.total_bytes, memory.available_bytes) == (65536 * 1024, 32768 * 1024)
    assert (memory.swap_total_bytes, memory.swap_free_bytes) == (1024 * 1024, 512 * 1024)
    assert (memory.cgroup_limit_bytes, memory.usable_bytes) == (999, 100)


def test_this_machine_agrees_with_the_kernel() -> None:
    limits = cgroup_limits()
    cpu = cpu_facts(Path("/"), limits)
    assert cpu.affinity == len(os.sched_getaffinity(0))
    assert cpu.usable is not None
    assert 1 <= cpu.usable <= cpu.affinity
    total = memory_facts(Path("/"), limits).total_bytes
    assert total == pytest.approx(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.01)


FLASH = LargeUnit("flash attention", 5 * GIB, 40 * GIB)
LARGEST = "at 5 GiB each, the largest 40 GiB (flash attention)"


@pytest.mark.parametrize(
    ("cores", "memory", "requested", "large", "jobs", "reason"),
    [
        (2, 24 * GIB, "auto", None, 2, "2 of 2 cores; memory 24 GiB allows 12 at 2 GiB each"),
        (64, 24 * GIB, "auto", None, 12, "12 of 64 cores; memory 24 GiB allows 12 at 2 GiB each"),
        (8, GIB, "auto", None, 1, "1 of 8 cores; memory 1 GiB allows 1 at 2 GiB each"),
        (8, None, "auto", None, 8, "8 of 8 cores; free memory is unknown"),
        (
            None, 24 * GIB, "auto", None, 1,
            "1 job; the number of cores is unknown; memory 24 GiB allows 12 at 2 GiB each",
        ),
        (2, 24 * GIB, 5, None, 5, "5 requested"),
        (2, 3 * GIB, 5, None, 5, "5 requested; memory 3 GiB allows 1 at 2 GiB each, so memory may run out"),
        # The largest units must fit beside the others.
        (64, 128 * GIB, "auto", FLASH, 18, f"18 of 64 cores; memory 128 GiB allows 18 {LARGEST}"),
        (16, 512 * GIB, "auto", FLASH, 16, f"16 of 16 cores; memory 512 GiB allows 95 {LARGEST}"),
        (
            8, 32 * GIB, "auto", FLASH, 1,
            f"1 of 8 cores; memory 32 GiB allows 1 {LARGEST}, and may still run out",
        ),
        (
            64, 128 * GIB, 32, FLASH, 32,
            f"32 requested; memory 128 GiB allows 18 {LARGEST}, so memory may run out",
        ),
    ],
)  # fmt: skip
def test_jobs_and_their_reason(  # noqa: PLR0917
    cores: int | None, memory: int | None, requested: int, large: LargeUnit | None, jobs: int, reason: str
) -> None:
    plan = plan_jobs(cores, memory, requested, 2 * GIB, large)
    assert (plan.jobs, plan.reason) == (jobs, reason)


@given(
    cores=st.one_of(st.none(), st.integers(1, 512)),
    memory=st.one_of(st.none(), st.integers(0, 1 << 45)),
    per_job=st.integers(1, 64 * GIB),
)
def test_jobs_stay_within_cores_and_memory(cores: int | None, memory: int | None, per_job: int) -> None:
    jobs = plan_jobs(cores, memory, "auto", per_job).jobs
    assert 1 <= jobs <= (cores or 1)
    assert memory is None or jobs == 1 or jobs * per_job <= memory
