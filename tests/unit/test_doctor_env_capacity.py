"""Memory, disk, temporary folders, file systems and the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import GIB, EnvHost, offline
from support.doctor_shows import shows

from xpubuild.doctor.checks import build
from xpubuild.doctor.look import filesystem
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
