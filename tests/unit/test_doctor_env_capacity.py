"""Memory, disk, temporary folders, file systems, the clock, quotas, and which libfabric is loaded."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import GIB, EnvHost, offline
from support.doctor_shows import shows
from support.small_elf import library

from xpubuild.doctor.checks import build
from xpubuild.doctor.checks.shadow_system import shadow_libfabric
from xpubuild.doctor.kit import Outcome
from xpubuild.doctor.look import filesystem
from xpubuild.doctor.look.filesystem import Room, quota_room
from xpubuild.machine.capacity import MemoryFacts
from xpubuild.machine.compilers import CompilerFacts
from xpubuild.machine.disk import DiskFacts
from xpubuild.recipe.load import load


@pytest.fixture
def host(tmp_path: Path) -> EnvHost:
    return EnvHost(tmp_path)


def memory(usable_gib: float, **facts: int) -> MemoryFacts:
    return MemoryFacts(total_bytes=256 * GIB, usable_bytes=int(usable_gib * GIB), **facts)


@shows("warn", "build.memory")
def test_memory_below_the_largest_source_is_a_warning(host: EnvHost) -> None:
    host.facts["memory"] = memory(24)
    found = build.build_memory(host.context(offline("2.13")))
    assert (found.status, "flash attention" in found.detail) == ("warn", True)
    # An older GCC does not compile it at all.
    host.facts["compilers"] = (CompilerFacts("g++", "/usr/bin/g++", "gcc", "12.3.0"),)
    assert build.build_memory(host.context(offline("2.13"))).status == "ok"


def disk(host: EnvHost, **facts: Any) -> DiskFacts:
    usual: dict[str, Any] = {
        "total_bytes": 900 * GIB,
        "free_bytes": 800 * GIB,
        "filesystem": "ext4",
        "mount_point": "/",
    }
    return DiskFacts(str(host.folder / "work"), **{**usual, **facts})


@shows("warn", "build.disk")
def test_little_space_is_a_warning_without_a_recipe(host: EnvHost) -> None:
    host.facts["disk"] = disk(host, free_bytes=10 * GIB)
    assert build.build_disk(host.context()).status == "warn"
    assert build.build_disk(host.context(load("quickstart"))).status == "ok"


def test_a_quota_counts(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        filesystem, "_source", lambda mount_point: "server:/home" if mount_point == "/" else ""
    )
    report = "echo 'Filesystem blocks quota limit'\necho 'server:/home 9437184* 8388608 10485760 0 5 0 0 0'\n"
    standin.write(host.folder / "bin" / "quota", f"#!/bin/sh\n{report}", mode=0o755)
    host.environ["PATH"] = f"{host.folder / 'bin'}:{host.environ['PATH']}"
    found = build.build_disk(host.context(offline("2.8")))
    assert (found.status, "quota leaves 1 GiB" in found.detail) == ("fail", True)


@shows("fail", "build.tmpdir")
def test_tmpdir_that_is_not_there(host: EnvHost) -> None:
    host.environ["TMPDIR"] = str(host.folder / "gone")
    assert build.build_tmpdir(host.context()).status == "fail"


def test_nothing_is_left_in_the_folders_that_were_tried(host: EnvHost) -> None:
    context = host.context()
    for check in (build.build_tmpdir, build.build_filesystem, build.build_clock):
        found = check(context)
        assert found.status == "ok", found
    assert not [*(host.folder / "tmp").iterdir(), *(host.folder / "work").iterdir()]


@pytest.mark.parametrize(
    ("facts", "status"),
    [({"filesystem": "nfs4"}, "warn"), ({"read_only": True}, "fail"), ({"noexec": True}, "fail"), ({}, "ok")],
)
def test_file_systems(host: EnvHost, facts: dict[str, Any], status: str) -> None:
    host.facts["disk"] = disk(host, **facts)
    assert build.build_filesystem(host.context()).status == status


@shows("ok", "build.clock")
@shows("fail", "build.clock")
def test_a_file_server_whose_clock_is_wrong(host: EnvHost, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build.build_clock(host.context()).status == "ok"
    for ahead, status in ((-90.0, "fail"), (5.0, "warn")):
        written = filesystem.Written(ahead_s=ahead)
        monkeypatch.setattr(build, "write_small", lambda _folder, found=written: found)
        assert build.build_clock(host.context()).status == status


# ---- Which libfabric MPI and oneCCL load, made of small ELF files, and what Lustre says of its quotas


FABRIC = "libfabric.so.1"
OLD = ("FABRIC_1.0", "FABRIC_1.1", "FABRIC_1.2")
NEW = (*OLD, "FABRIC_1.3", "FABRIC_1.7")


@pytest.fixture
def mpi(host: EnvHost) -> Path:
    """Intel MPI as its script sets it up; returns the folder of its libfabric."""
    root = host.folder / "oneapi" / "mpi" / "2021.16"
    folder = root / "opt" / "mpi" / "libfabric" / "lib"
    library(folder / FABRIC, defines=NEW, mark="of Intel MPI")
    library(folder / "prov" / "libtcp-fi.so", wants={FABRIC: ["FABRIC_1.7"]})
    host.environ.update(
        I_MPI_ROOT=str(root),
        LD_LIBRARY_PATH=str(folder),
        FI_PROVIDER_PATH=f"{folder}/prov:/usr/lib64/libfabric",
    )
    return folder


def look(host: EnvHost) -> Outcome:
    return shadow_libfabric(host.context())


def in_front(host: EnvHost, versions: tuple[str, ...], mark: str = "of a module") -> Path:
    folder = host.folder / "opt" / "cray" / "libfabric" / "lib64"
    host.environ["LD_LIBRARY_PATH"] = f"{folder}:{host.environ.get('LD_LIBRARY_PATH', '')}"
    return library(folder / FABRIC, defines=versions, mark=mark)


def test_an_old_one_in_front_cannot_load_the_providers(host: EnvHost, mpi: Path) -> None:
    first = in_front(host, OLD)
    found = look(host)
    assert (found.status, found.evidence["short"]) == ("fail", {str(first): ["FABRIC_1.7"]})
    assert f"export FI_PROVIDER_PATH={mpi}/prov" in found.fix.commands


@shows("ok", "shadow.libfabric")
def test_two_of_them_are_a_warning(host: EnvHost, mpi: Path) -> None:
    first = in_front(host, NEW)
    found = look(host)
    assert found.status == "warn"
    assert f"MPI loads {first}, oneCCL {mpi / FABRIC}" in found.detail
    # oneCCL told to take the same one: what a cluster with a fabric of its own does.
    host.environ["CCL_OFI_LIBRARY_PATH"] = str(first)
    assert look(host).status == "ok"


@pytest.mark.parametrize(("value", "told"), [("", "is not set"), ("/nowhere", "contains no provider")])
def test_providers_that_nothing_names(host: EnvHost, mpi: Path, value: str, told: str) -> None:
    host.environ["FI_PROVIDER_PATH"] = value
    found = look(host)
    assert (found.status, told in found.detail) == ("warn", True)
    assert f"export FI_PROVIDER_PATH={mpi}/prov" in found.fix.commands


# Lustre: the output of "lfs quota" as the Lustre manual and sites' documents show it.

TITLES = "     Filesystem  kbytes   quota   limit   grace   files   quota   limit   grace"
PLENTY = f"{TITLES}\n       /lustre    1048576       0       0       -    1024       0       0       -"


def on_lustre(host: EnvHost, user: str, group: str = PLENTY) -> None:
    script = (
        "#!/bin/sh\n"
        '[ "$1" = quota ] && [ "$4" = / ] || exit 2\n'
        'case "$2" in -u) [ "$3" = "$(id -u)" ] &&'
        f" cat <<EOF\nDisk quotas for usr me (uid $3):\n{user}\nEOF\n;;\n"
        f"-g) cat <<EOF\nDisk quotas for grp ours (gid $3):\n{group}\nEOF\n;; esac\n"
    )
    standin.write(host.folder / "bin" / "lfs", script, mode=0o755)
    host.environ["PATH"] = f"{host.folder / 'bin'}:{host.environ['PATH']}"
    host.facts["disk"] = replace(host.facts["disk"], filesystem="lustre")


def test_lustre_with_a_path_on_a_line_of_its_own(host: EnvHost) -> None:
    used, limit = 95 << 20, 100 << 20
    on_lustre(
        host,
        f"{TITLES}\n/home/mila/n/somebody\n                {used}       0 {limit}       -  908722       0"
        " 1048576       -\nuid 1471600598 is using default block quota setting",
    )
    found = build.build_disk(host.context(offline("2.8")))
    assert (found.status, found.evidence["quota_free_bytes"]) == ("fail", 5 * GIB)
    assert found.evidence["quota_inodes_free"] == 1048576 - 908722
    assert "quota leaves 5 GiB" in found.detail
    assert quota_room(host.folder / "gone", "/", "lustre", host.environ) == Room()
