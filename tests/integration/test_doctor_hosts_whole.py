"""A healthy host with a Max 1550, and one thing wrong in its environment: all checks, as users run them.

The GPUs and the machine's memory are simulated in a mount namespace (support/hosts.py), oneAPI and the Python
environment are small files (support/doctor_env.py), disks are real tmpfs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, tmpfs
from support.gpu_hosts import HEALTHY
from support.hosts import simulate
from support.small_elf import library

pytestmark = [pytest.mark.needs("mount", "libze1", "libze-dev"), pytest.mark.xdist_group("hosts")]
OLD = {**standin.BUNDLE_2025_1, "mkl": "2025.1"}
NEW = {**standin.BUNDLE_2025_3, "mkl": "2025.3"}
WORK = "/srv/xpubuild-work"
_GIB_KB = 1 << 20
#: No server is there to be reached, and how old a loader is depends on the machine that runs the tests.
SKIPPED = ("network.reach", "level_zero.versions")
Change = Callable[[EnvHost], None]


@dataclass(frozen=True)
class Case:
    """What is wrong: in the environment (``change``), or in what is mounted and in /proc and /sys."""

    name: str
    expect: frozenset[str]
    change: Change | None = None
    mounts: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


def two_versions(host: EnvHost) -> None:
    host.oneapi(NEW)
    host.source(host.oneapi_root, OLD)
    host.environ["CPATH"] = str(host.oneapi_root / "compiler" / NEW["compiler"] / "include")


def wrong_setvars(host: EnvHost) -> None:
    host.oneapi(NEW)
    for name, version in OLD.items():
        standin.point_latest(host.oneapi_root, name, version)
    host.environ.update(
        SETVARS_COMPLETED="1", CMPLR_ROOT=str(host.oneapi_root / "compiler" / NEW["compiler"])
    )


def conda_libstdcxx(host: EnvHost) -> None:
    library(host.prefix / "lib" / "libstdc++.so.6", defines=["GLIBCXX_3.4", "GLIBCXX_3.4.28"])
    (host.prefix / "conda-meta").mkdir()
    wants = {"libstdc++.so.6": ["GLIBCXX_3.4.30"]}
    library(host.folder / "driver" / "libigc.so.2", wants=wants)
    host.environ["LD_LIBRARY_PATH"] = str(host.folder / "driver")


def two_tritons(host: EnvHost) -> None:
    host.triton("triton", "3.4.0", intel=False)


def cpu_torch(host: EnvHost) -> None:
    standin.remove(host.site)
    host.site.mkdir()
    host.torch("2.8.0+cpu", xpu=False)


CASES = [
    Case("healthy", frozenset()),
    Case("two oneAPI versions", frozenset({"oneapi.mixed"}), two_versions),
    Case("setvars of the wrong release", frozenset({"oneapi.sourced"}), wrong_setvars),
    Case("libstdc++ of conda is too old", frozenset({"shadow.libstdcxx"}), conda_libstdcxx),
    Case("triton and triton-xpu", frozenset({"torch.one_triton"}), two_tritons),
    Case("torch for the CPU", frozenset({"torch.xpu_build"}), cpu_torch),
    Case("full disk", frozenset({"build.disk"}), mounts={WORK: "size=64k"}),
    Case(
        "4 GiB control group",
        frozenset({"build.memory"}),
        files={
            "/proc/meminfo": f"MemTotal: {256 * _GIB_KB} kB\nMemAvailable: {200 * _GIB_KB} kB\n",
            "/proc/self/cgroup": "0::/job\n",
            "/sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
            "/sys/fs/cgroup/job/memory.max": f"{4 << 30}\n",
            "/sys/fs/cgroup/job/memory.current": "104857600\n",
        },
    ),
]


def doctor(case: Case, folder: Path) -> dict[str, Any]:
    host = EnvHost(folder / "env")
    host.real_python()
    host.oneapi(OLD)
    host.torch()
    if case.change:
        case.change(host)
    memory = {"/proc/meminfo": f"MemTotal: {256 * _GIB_KB} kB\nMemAvailable: {200 * _GIB_KB} kB\n"}
    machine = HEALTHY.but(
        name=case.name,
        files={**memory, **case.files},
        mounts={WORK: "size=100g", **case.mounts},
        environ=host.environ,
    )
    prefix, environ = simulate(machine, folder)
    skip = [word for name in SKIPPED for word in ("--skip", name)]
    argv = [*prefix, sys.executable, "-m", "xpubuild", "doctor", "--json", "--recipe", "2.8", *skip]
    argv += ["--python", str(host.prefix / "bin" / "python3"), "--workspace", f"{WORK}/2.8"]
    answer = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert answer.returncode in (0, 10), answer.stderr
    document: dict[str, Any] = json.loads(answer.stdout)
    return document


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_exactly_the_expected_checks_fail(tmp_path: Path, case: Case) -> None:
    found = {
        item["id"]: item["detail"]
        for item in doctor(case, tmp_path)["checks"]
        if item["status"] in ("fail", "error")
    }
    assert set(found) == case.expect, found


def test_a_tmpdir_that_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "env").mkdir()
    with tmpfs(tmp_path / "env" / "tmp", "size=8g,noexec"):
        document = doctor(Case("TMPDIR runs nothing", frozenset()), tmp_path)
    assert {item["id"] for item in document["checks"] if item["status"] == "fail"} == {"build.tmpdir"}
