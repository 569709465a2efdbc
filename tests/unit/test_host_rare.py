"""What readers of the host do at their limits, and what is made of programs that say little."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest
from unit.test_host_capacity import lay
from unit.test_host_pythons_and_tools import fake_installation, script

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import QueryResult
from xpubuild.machine import host_report as report
from xpubuild.machine import pythons, readers, system
from xpubuild.machine.capacity import CpuFacts, MemoryFacts, cpu_facts, memory_facts
from xpubuild.machine.cgroup import CgroupLimits, cgroup_limits
from xpubuild.machine.drivers import DriverFacts, family_of_version, find_drivers
from xpubuild.machine.jobs import JobPlan, LargeUnit, plan_jobs
from xpubuild.machine.pythons import PythonFacts, find_pythons, probe_python
from xpubuild.machine.readers import entries, exists, inside, link_name, read_bytes, read_text
from xpubuild.machine.system import OsFacts, os_facts
from xpubuild.machine.tools import locate

GIB = 1 << 30


def test_as_many_links_are_followed_as_the_kernel_follows(tmp_path: Path) -> None:
    (tmp_path / "0").write_text(" a\r\nb \n")
    for number in range(1, 42):
        (tmp_path / str(number)).symlink_to(str(number - 1))
    assert read_text(tmp_path / "40", tmp_path) == "a\nb"
    assert read_text(tmp_path / "41", tmp_path) is None
    assert inside(tmp_path / "41", tmp_path) == Path("/dev/null/nowhere")
    assert inside(Path("/etc/x"), tmp_path) == Path("/dev/null/nowhere")


def test_large_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "MOST_BYTES", 10)
    monkeypatch.setattr(readers, "_CHUNK_BYTES", 4)
    file = tmp_path / "a"
    file.write_bytes(b"0123456789")
    assert (read_bytes(file), read_bytes(file, first=3), read_bytes(file, first=0)) == (
        b"0123456789",
        b"012",
        b"",
    )
    file.write_bytes(b"0123456789a")
    assert (read_bytes(file), read_bytes(file, first=8)) == (None, b"01234567")
    assert read_bytes(Path("/proc/self/status")) is None, "its size says 0"


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    assert read_bytes(Path("/proc/self/mem"), first=1) is None
    long = tmp_path / ("x" * 300)
    assert (read_text(long), exists(long), entries(long), link_name(long)) == (None, False, [], None)
    assert link_name(tmp_path / "a\0b") is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("echo a; echo b; exit 3", "exited with code 3: a"),
        ("echo a >&2; echo b; exit 3", "exited with code 3: a"),
        ("echo 'Traceback (most recent call last):'; echo last; exit 1", "exited with code 1: last"),
        ('echo "$@" | head -2 | tail -1; exit 2', "exited with code 2"),
        ("echo '[1]'", "exited with code 0: [1]"),
        ("echo '{}'; exit 4", "exited with code 4: {}"),
        ("", "exited with code 0"),
    ],
)
def test_an_interpreter_that_is_none_says_so(tmp_path: Path, body: str, error: str) -> None:
    program = script(tmp_path / "python3", body)
    assert probe_python(program) == PythonFacts(str(program), error=error)


def test_an_interpreter_is_asked_alone_and_told_what_counts(tmp_path: Path) -> None:
    program = script(
        tmp_path / "python3", 'echo "{\\"version\\": \\"$1 $2 $A\\", \\"error\\": \\"x\\", \\"y\\": 1}"'
    )
    environment = {**base_environment(), "A": "a"}
    assert probe_python(program, environment) == PythonFacts(str(program), version="-I -c a")


@pytest.mark.parametrize(
    ("said", "program", "files"),
    [
        ('{"program": "/p", "loaded": ["/a"]}', "/p", ["/a"]),
        ('{"program": "/q", "loaded": ["/a"]}', "/p", None),
        ('{"program": "/p"}', "/p", None), ("[]", "/p", None), ("x", "/p", None),
    ],
)  # fmt: skip
def test_what_decides_the_answer_of_an_interpreter(said: str, program: str, files: list[str] | None) -> None:
    assert pythons._loaded(QueryResult(("python",), 0, said, ""), Path(program)) == files


def test_installations_are_read_from_their_files(tmp_path: Path) -> None:
    root = tmp_path / "image"
    fake_installation(root / "usr", "3.13t", headers=True, ensurepip=True)
    (root / "usr/lib").rename(root / "usr/lib64")
    bare = root / "opt/bin/python3.12"
    bare.parent.mkdir(parents=True)
    bare.write_bytes(b"\x7fELF")
    (bare.parent / "python3.11").write_bytes(b"\x7fEL")
    (bare.parent / "python2.7").write_bytes(b"\x7fELF")
    (bare.parent / "python").symlink_to("python3.12")
    (bare.parent / "python3").symlink_to("python3.12")
    found = find_pythons("/usr/bin:/opt/bin:/usr/bin", root)
    usual = PythonFacts(
        "/usr/bin/python3.13t", "3.13t.7", "CPython", None, free_threaded=True, virtual=False,
        base_executable="/usr/bin/python3.13t", include=str(root / "usr/include/python3.13t"), headers=True,
        ensurepip=True,
    )  # fmt: skip
    other = replace(
        usual, executable="/opt/bin/python3.12", version="3.12",
        free_threaded=False, base_executable="/opt/bin/python3.12", headers=False, ensurepip=None,
        include=str(root / "opt/include/python3.12"),
    )  # fmt: skip
    assert [replace(item, version="") for item in found] == [
        replace(item, version="") for item in (usual, other)
    ]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"etc/os-release": "ID=a\n#ID=b\nBAD\n NAME = 'N n' \nVERSION_ID=\"1\"\nID_LIKE='c  d'\n"},
         OsFacts("a", ("c", "d"), "1", "N n")),
        ({"usr/lib/os-release": "NAME=n\nPRETTY_NAME=p\n"}, OsFacts(name="p")),
        ({"etc/os-release": "ID=a\n", "usr/lib/os-release": "ID=b\n"}, OsFacts("a")),
        ({"etc/os-release": "NAME='x\n", "proc/sys/kernel/osrelease": "6.1 Microsoft\n"},
         OsFacts(name="'x", kernel="6.1 Microsoft", container="wsl")),
        *(({"proc/self/cgroup": f"0::/{word}/x\n"}, OsFacts(container=name)) for word, name in (
            ("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"),
            ("lxc", "lxc"), ("x", "none"))),
        *(({name: "x"}, OsFacts(container=told)) for name, told in (
            (".dockerenv", "docker"), ("run/.containerenv", "podman"), (".singularity.d", "apptainer"),
            ("run/systemd/container", "x"))),
    ],
)  # fmt: skip
def test_systems_of_trees(tmp_path: Path, files: dict[str, str], expected: OsFacts) -> None:
    assert os_facts(lay(tmp_path / "r", files)) == expected


@pytest.mark.parametrize("error", [ValueError(), OSError()])
def test_a_c_library_without_a_name(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def confstr(name: str) -> str:
        assert name == "CS_GNU_LIBC_VERSION"
        raise error

    monkeypatch.setattr(system.os, "confstr", confstr)
    assert os_facts().libc == "unknown"


@pytest.mark.parametrize(
    ("version", "stream", "family"),
    [
        ("23.43.27642.40", None, "lts-2350"), ("2:1.3.027642", "rolling", "lts-2350"),
        ("25.18.33578.1", None, "lts2-2523"),
        ("25.18.33578.1", "rolling", "rolling"), ("25.18.33578.1", "lts-2350", "lts2-2523"),
        ("1.2.27641", None, "unknown"),
        ("1.2.27643", None, "rolling"), ("1.2", None, "unknown"), ("x1.2.3", None, "unknown"),
    ],
)  # fmt: skip
def test_families_by_build_number(version: str, stream: str | None, family: str) -> None:
    assert family_of_version(version, stream) == family


@pytest.mark.parametrize(
    "folder", ["usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64"]
)
@pytest.mark.parametrize(
    "place", ["etc/apt/sources.list", "etc/apt/sources.list.d/a.list", "etc/apt/sources.list.d/a.sources",
              "etc/yum.repos.d/a.repo", "etc/zypp/repos.d/a.repo"],
)  # fmt: skip
def test_a_library_and_the_repositories(tmp_path: Path, folder: str, place: str) -> None:
    files = {f"{folder}/libze_intel_gpu.so.25.18.33578": "", f"{folder}/libze_intel_gpu.so.1": "", place: ""}
    usual = DriverFacts("lts2-2523", "libze_intel_gpu.so", "25.18.33578", f"/{folder}")
    lay(
        tmp_path,
        {**files, place: " # deb x/gpu/ubuntu jammy unified\n", "etc/apt/sources.list.d/b.txt": ROLLING},
    )
    assert find_drivers(tmp_path) == (usual,)
    for line in ("gpu/ubuntu noble client", "gpu/ubuntu noble unified", "kobuk-team/intel-graphics"):
        lay(tmp_path, {place: line})
        assert find_drivers(tmp_path) == (replace(usual, family="rolling"),)
    lay(tmp_path, {place: f"{ROLLING}x/lts/2523 y"})
    assert find_drivers(tmp_path) == (usual,)


ROLLING = "deb x/gpu/ubuntu jammy unified\n"


def test_limits_at_their_edges(tmp_path: Path) -> None:
    group = {
        "proc/self/cgroup": "0::/a/b\n3:cpu,x:/c\n4:memory:/d\n",
        "sys/fs/cgroup/unified/a/b/memory.max": "100\n",
    }
    lay(tmp_path, {
        **group, "sys/fs/cgroup/unified/a/b/memory.current": "150\n",
        "sys/fs/cgroup/unified/a/b/memory.stat": "inactive_file 70\n",
        "sys/fs/cgroup/unified/cpu.max": "1 0\n",
        "sys/fs/cgroup/cpu,y/c/cpu.cfs_quota_us": "0\n", "sys/fs/cgroup/cpu,y/c/cpu.cfs_period_us": "5\n",
        "sys/fs/cgroup/memory/d/memory.limit_in_bytes": f"{(1 << 60) - 1}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{1 << 60}\n",
    })  # fmt: skip
    assert cgroup_limits(tmp_path) == CgroupLimits(None, 100, 20)
    lay(tmp_path, {"sys/fs/cgroup/unified/a/b/memory.current": "10\n"})
    assert cgroup_limits(tmp_path).memory_room_bytes == 100
    lay(tmp_path, {"sys/fs/cgroup/cpu,y/c/cpu.cfs_quota_us": "7\n"})
    assert cgroup_limits(tmp_path).cpus == 1.4


def test_facts_of_processors_and_memory_as_a_whole(tmp_path: Path) -> None:
    first = "processor: 0\ncore id: 1\nphysical id: 0\n"
    cores = f"{first}\nprocessor: 1\ncore id: 1\nphysical id: 1\nmodel name: M\n"
    lay(
        tmp_path, {"proc/cpuinfo": cores, "proc/meminfo": "MemTotal: 4 kB\nMemAvailable: 3 kB\nSwapFree: x\n"}
    )
    assert cpu_facts(tmp_path, CgroupLimits(cpus=0.2)) == CpuFacts("M", 2, 2, None, 0.2, 1)
    assert cpu_facts(tmp_path, CgroupLimits()) == CpuFacts("M", 2, 2, None, None, 2)
    assert memory_facts(tmp_path, CgroupLimits()) == MemoryFacts(4096, 3072, None, None, None, 3072)


@pytest.mark.parametrize(
    ("memory", "requested", "large", "plan"),
    [
        (40 * GIB, "auto", None, JobPlan(8, "8 of 8 cores; memory 40 GiB allows 20 at 2 GiB each")),
        (10 * GIB, "auto", None, JobPlan(
            8, "8 of 8 cores; compilers wait for memory, 9 GiB for all", 9 * GIB, 5)),
        (GIB, 3, None, JobPlan(3, "3 requested; compilers wait for memory, 0.5 GiB for all", GIB // 2, 1)),
        (100 * GIB, 64, None, JobPlan(
            64, "64 requested; compilers wait for memory, 95 GiB for all", 95 * GIB, 50)),
        (30 * GIB, "auto", LargeUnit("x", GIB, 40 * GIB), JobPlan(
            8, ("8 of 8 cores; compilers wait for memory, 28.5 GiB for all, and may still run out of it:"
            " the largest needs 40 GiB (x)"), 30 * GIB - 30 * GIB // 20, 1)),
        (None, "auto", None, JobPlan(8, "8 of 8 cores; free memory is unknown")),
        (4 * GIB, 0, None, JobPlan(1, "1 requested")),
    ],
)  # fmt: skip
def test_compilers_that_can_wait(
    memory: int | None, requested: int, large: LargeUnit | None, plan: JobPlan
) -> None:
    assert plan_jobs(8, memory, requested, 2 * GIB, large, can_wait=True) == plan


def test_a_question_that_fails_fails_where_its_answer_is_wanted() -> None:
    def ask() -> int:
        raise RuntimeError("no")

    asked = report._begun(ask)
    with pytest.raises(RuntimeError, match="no"):
        report._said(asked, 1e12, 0)
    assert report._said(report._begun(lambda: 3), 1e12, 0) == 3
    assert report._said(Future(), 0.0, 7) == 7


def test_programs_are_not_looked_for_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(tmp_path / "cmake", "")
    monkeypatch.chdir(tmp_path)
    assert locate(("cmake", "none"), f".::{tmp_path}") == {"cmake": str(tmp_path / "cmake")}
