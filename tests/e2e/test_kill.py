"""SIGKILL at any moment, and the same command again ends in the same result."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from xpubuild.artifacts.wheel import read_wheel

from .conftest import Built, Cli, command

pytestmark = [pytest.mark.xdist_group("quickstart"), pytest.mark.slow]

# A run of the quickstart lasts about a minute: thirty moments, early in each step, and some late ones. Each
# run of the tests kills a smaller install (test_torture.py).
MOMENTS_S = [*(0.2 + 0.35 * i for i in range(15)), *(5.5 + 1.7 * i for i in range(15))]


def _alive(workspace: Path) -> list[str]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if process.pid != os.getpid() and any(str(workspace) in word for word in words):
            found.append(f"{process.pid}: {' '.join(words)[:200]}")
    return found


def _assert_nothing_lives(workspace: Path, after: str) -> None:
    until = time.monotonic() + 10
    while (left := _alive(workspace)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left, f"left behind after {after}: {left}"


@pytest.mark.timeout(3600)
@pytest.mark.on_demand
def test_killed_at_some_moments(cli: Cli, built: Built, tmp_path: Path) -> None:
    workspace = tmp_path / "killed ws"
    # The last is the first; a late one leaves most for the early ones after it to come upon.
    moments = list(MOMENTS_S)
    install = command("install", "quickstart", "--workspace", workspace)
    while moments:
        with subprocess.Popen(install, start_new_session=True, stderr=subprocess.DEVNULL) as process:
            try:
                assert process.wait(moments[-1]) == 0
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                _assert_nothing_lives(workspace, f"a kill at {moments.pop():.1f} s")
            else:
                # Finished before the moment came: the next kills hit a new one.
                shutil.rmtree(workspace)
    receipt = cli("install", "quickstart", "--workspace", workspace, "--json").must(0).document
    assert receipt["status"] == "complete"
    assert receipt["verify"]["status"] == "pass"
    assert not _alive(workspace)
    (wheel,) = (workspace / "wheels").glob("*.whl")
    assert read_wheel(wheel).digest == built.receipt["wheels"][0]["content_digest"]
    names = {path.name for path in workspace.iterdir()}
    assert names <= {"src", "env", "build", "wheels", "logs", "journal.db", "receipt.json", ".lock"}
