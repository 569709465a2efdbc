"""A healthy host with a Max 1550, and one thing wrong in its machine: all checks, as users run them.

The GPUs and the machine's memory are simulated in a mount namespace (support/hosts.py), oneAPI and the Python
environment are small files (support/doctor_env.py), disks are real tmpfs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from integration import oneapi_standin as standin
from support.doctor_env import EnvHost, tmpfs
from support.gpu_hosts import HEALTHY
from support.hosts import simulate

pytestmark = [pytest.mark.needs("mount", "libze1", "libze-dev"), pytest.mark.xdist_group("hosts")]
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
    with tmpfs(tmp_path / "env" / "tmp", "size=8g,noexec"):
        assert [*failing(tmp_path)] == ["build.tmpdir"]
