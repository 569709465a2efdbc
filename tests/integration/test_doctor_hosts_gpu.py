"""Simulated hosts with Intel GPUs: the checks that must fail or warn do, and no others.

The GPUs are sysfs trees and device nodes in a mount namespace; the loader is the real one, the driver behind
it a stand-in (``support/fake_ze``). Each host is looked at by ``xpubuild doctor`` as a user would start it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support import gpu_hosts
from support.doctor_env import EnvHost
from support.engine import small_disk
from support.gpu_hosts import ALL, HEALTHY, WELL
from support.hosts import Host, record, simulate

pytestmark = [pytest.mark.needs("mount", "libze1", "libze-dev"), pytest.mark.xdist_group("hosts")]
#: All checks run, and none but the expected may fail; warnings of these groups are held to account too.
GROUPS = ("gpu.", "driver.", "level_zero.", "opencl.", "sycl.")
#: Whether it fails depends on the loader of the machine that runs the tests: Debian 12 has 1.8.
VARIES = "level_zero.versions"
Examine = Callable[[Host], dict[str, Any]]


@pytest.fixture(scope="module")
def examine(tmp_path_factory: pytest.TempPathFactory) -> Examine:
    """Look at each host once, however many tests ask about it."""
    known: dict[str, dict[str, Any]] = {}

    def run(host: Host) -> dict[str, Any]:
        if host.name not in known:
            prefix, environ = simulate(host, tmp_path_factory.mktemp("host"))
            # Another user has no right to the folders of the tests, where it would be asked to build.
            folders = ("--skip", "build") if host.user.uid else ()
            known[host.name] = _doctor(prefix, environ, *host.arguments, *folders)
        return known[host.name]

    return run


def _doctor(prefix: list[str], environ: dict[str, str] | None, *arguments: str) -> dict[str, Any]:
    # Servers are the only thing here that belongs to the machine of the tests.
    argv = [*prefix, sys.executable, "-m", "xpubuild", "doctor", "--json", "--skip", "network", *arguments]
    answer = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode in (0, 10), answer.stderr
    assert not answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    failed = any(item["status"] in ("fail", "error") for item in document["checks"])
    assert answer.returncode == (10 if failed else 0)
    return document


def _with(document: dict[str, Any], status: str) -> set[str]:
    return {item["id"] for item in document["checks"] if item["status"] == status}


def _one(document: dict[str, Any], identifier: str) -> dict[str, Any]:
    found: dict[str, Any] = next(item for item in document["checks"] if item["id"] == identifier)
    return found


@pytest.mark.parametrize("host", ALL, ids=str)
def test_exactly_the_expected_checks_notice(examine: Examine, host: Host) -> None:
    document = examine(host)
    assert _with(document, "error") == set()
    assert _with(document, "fail") - ({VARIES} - host.expect) == host.expect
    warned = {name for name in _with(document, "warn") if name.startswith(GROUPS)}
    assert warned - {VARIES} == host.warns - {VARIES}
    for item in document["checks"]:
        assert (item["fix"] is not None) == (item["status"] in ("fail", "warn")), item["id"]
    # No host is called able without asking Level Zero.
    for name in () if host.expect else ("level_zero.loader", "level_zero.enumerate", "gpu.agreement"):
        assert _one(document, name)["status"] == "ok", name


@pytest.mark.parametrize("name", WELL)
def test_checks_are_ok_and_not_skipped(examine: Examine, name: str) -> None:
    document = examine(next(host for host in ALL if host.name == name))
    assert _with(document, "ok") >= WELL[name]


def test_hosts_have_names_of_their_own() -> None:
    assert len({host.name for host in ALL}) == len(ALL) >= 25


@pytest.mark.parametrize(
    ("host", "identifier", "words", "command"),
    [
        ("no GPU at all", "gpu.present", "0 PCI functions", ""),
        (
            "i915 blacklisted",
            "gpu.kernel_driver",
            "blacklisted in /etc/modprobe.d/no-graphics.conf",
            "modprobe i915",
        ),
        (
            "no permission for the render node",
            "gpu.render_access",
            "ada is not a member",
            "usermod -aG render ada",
        ),
        ("a member since after the login", "gpu.render_access", "login session is older", "newgrp render"),
        ("a container with the wrong gid", "gpu.render_access", "gid 109", "--group-add 109"),
        ("a container without the device", "gpu.render_node", "/dev/dri/renderD128", "--device /dev/dri"),
        ("rootless Podman dropped the groups", "gpu.render_access", "not mapped", "--group-add keep-groups"),
        ("loader missing", "level_zero.loader", "cannot open shared object file", "install -y level-zero"),
        ("loader older than the driver", "level_zero.versions", "the driver has 1.99", "level-zero"),
        (
            "driver crashes in zeInit",
            "level_zero.enumerate",
            "killed by SIGSEGV in zeInit",
            "intel-level-zero-gpu",
        ),
        ("Level Zero without a driver", "driver.family", "no Level Zero driver", "libze-intel-gpu1"),
        ("driver hangs", "level_zero.enumerate", "timed out in zeInit", "dmesg"),
        (
            "the loader was told to take another driver",
            "level_zero.enumerate",
            "ZE_ENABLE_ALT_DRIVERS=libze_other.so.1",
            "unset ZE_ENABLE_ALT_DRIVERS",
        ),
        ("hidden by a mask", "gpu.hidden", "ZE_AFFINITY_MASK=7 hides all 2", "unset ZE_AFFINITY_MASK"),
        ("one tile left by a selector", "gpu.hidden", "1 of 2 devices", "unset ONEAPI_DEVICE_SELECTOR"),
        ("Arc next to Max", "gpu.supported", "several families", "ONEAPI_DEVICE_SELECTOR=level_zero:"),
        ("COMPOSITE hierarchy", "gpu.hierarchy", "1 devices, one for each card, instead of 2", "unset"),
        ("one of two cards is not listed", "gpu.agreement", "0000:3a:00.0", "SYCL_UR_TRACE=1"),
        ("LTS2 where the recipe wants LTS", "driver.recipe", "needs driver lts-2350", "recipes"),
        (
            "torch crashes when it is imported",
            "torch.import",
            "killed by SIGSEGV in import torch",
            "faulthandler",
        ),
        ("Max driven by xe", "gpu.kernel_driver", "only its own i915", "intel-i915-dkms intel-fw-gpu"),
        (
            "Max closed, Arc open",
            "gpu.render_access",
            "programs can only use Intel Arc A770 at 0000:03:00.0",
            "udevadm",
        ),
        ("no headers and no ocloc", "driver.headers", "ze_api.h", "install -y level-zero-dev opencl-headers"),
        ("no headers and no ocloc", "driver.ocloc", "no ocloc", "install -y intel-opencl-icd"),
        ("firmware that does not start", "gpu.firmware", "GuC initialization failed", "intel-fw-gpu"),
        ("link of half the width", "gpu.pcie_link", "32 GT/s x8 of 32 GT/s x16", "LnkSta"),
    ],
)
def test_what_is_said_and_what_to_type(
    examine: Examine, host: str, identifier: str, words: str, command: str
) -> None:
    found = _one(examine(next(item for item in ALL if item.name == host)), identifier)
    assert words in found["detail"]
    assert command in "\n".join(found["fix"]["commands"])


def test_the_healthy_host_is_described(examine: Examine) -> None:
    document = examine(HEALTHY)
    gpu = document["host"]["gpus"][0]
    expected = {"device_id": "0x0bd5", "kernel_driver": "i915", "accessible": True, "tiles": 2}
    assert gpu == {**gpu, **expected}
    memory = _one(document, "gpu.memory_tiles")["evidence"]["gpus"]["0000:29:00.0"]
    assert memory == {"tiles": 2, "memory_bytes": 128 << 30}
    counts = _one(document, "gpu.agreement")["evidence"]["counts"]
    assert (counts["PCI"], counts["DRM"], counts["Level Zero"]) == (1, 1, 2)


@pytest.mark.parametrize(
    ("host", "expect"),
    [
        ("Max 1550, healthy, 2 tiles", set()),
        ("no GPU at all", {"driver.family"}),
        ("i915 blacklisted", {"gpu.kernel_driver"}),
        ("driver families mixed", {"driver.mixed"}),
        ("i915 made no render node", {"gpu.render_node"}),
    ],
)
def test_recorded_trees_tell_what_files_can(tmp_path: Path, host: str, expect: set[str]) -> None:
    recorded = next(item for item in gpu_hosts.ALL if item.name == host)
    root = record(recorded.but(files={"/usr/lib/x86_64-linux-gnu/libze_loader.so.1": ""}), tmp_path / "root")
    document = _doctor([], None, "--root", str(root))
    assert _with(document, "fail") == expect
    skipped = {item["id"]: item["detail"] for item in document["checks"] if item["status"] == "skip"}
    assert all(skipped.values())
    assert "gpu.render_access" in skipped


# ---- A healthy host with one thing wrong in its machine, or in the folder that it works in


WORK = "/srv/xpubuild-work"
_GIB_KB = 1 << 20
MEMORY = {"/proc/meminfo": f"MemTotal: {256 * _GIB_KB} kB\nMemAvailable: {200 * _GIB_KB} kB\n"}
GROUP = {
    "/proc/self/cgroup": "0::/job\n",
    "/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "/sys/fs/cgroup/job/memory.max": f"{4 << 30}\n",
    "/sys/fs/cgroup/job/memory.current": "104857600\n",
}
#: No server is there to be reached, and how old a loader is depends on the machine that runs the tests.
SKIPPED = ("network.reach", "level_zero.versions")


def failing(folder: Path, work: str = "size=100g", files: dict[str, str] | None = None) -> dict[str, Any]:
    """Return what fails with such a tmpfs as the workspace's disk and such files of the machine, by id."""
    host = EnvHost(folder / "env")
    host.real_python()
    host.oneapi({**standin.BUNDLE_2025_1, "mkl": "2025.1"})
    host.torch()
    changes = {"files": {**MEMORY, **(files or {})}, "mounts": {WORK: work}, "environ": host.environ}
    prefix, environ = simulate(HEALTHY.but(**changes), folder)
    skip = [word for name in SKIPPED for word in ("--skip", name)]
    argv = [*prefix, sys.executable, "-m", "xpubuild", "doctor", "--json", "--recipe", "2.8", *skip]
    argv += ["--python", str(host.prefix / "bin" / "python3"), "--workspace", f"{WORK}/2.8"]
    answer = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode in (0, 10), answer.stderr
    checks = json.loads(answer.stdout)["checks"]
    return {item["id"]: item["detail"] for item in checks if item["status"] in ("fail", "error")}


@pytest.mark.parametrize(
    ("work", "files", "expected"),
    [("size=100g", {}, []), ("size=64k", {}, ["build.disk"]), ("size=100g", GROUP, ["build.memory"])],
    ids=["healthy", "full disk", "4 GiB control group"],
)
def test_exactly_the_expected_checks_fail(
    tmp_path: Path, work: str, files: dict[str, str], expected: list[str]
) -> None:
    """What is wrong in the environment alone: test_doctor_hosts_env.py."""
    found = failing(tmp_path, work, files)
    assert [*found] == expected, found


def test_a_tmpdir_that_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    with small_disk(tmp_path / "env" / "tmp", "8g,noexec"):
        assert [*failing(tmp_path)] == ["build.tmpdir"]
