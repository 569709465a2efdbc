"""Scratch folders of verify: those of killed processes go with the next verify, those of living ones stay."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from xpubuild.engine.temporary import scratch_folder

WAITS = """
import sys
from xpubuild.engine.temporary import scratch_folder
with scratch_folder("verify") as folder:
    (folder / "cache").mkdir()
    (folder / "cache/kernel").write_text("x")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a temporary folder of this test's own, also in children."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@pytest.fixture
def other() -> Iterator[subprocess.Popen[str]]:
    """Another process inside its scratch folder."""
    argv = [sys.executable, "-c", WAITS]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def folder_of(process: subprocess.Popen[str]) -> Path:
    assert process.stdout is not None
    return Path(process.stdout.readline().strip())


def test_the_folder_of_a_killed_process_goes_with_the_next_verify(other: subprocess.Popen[str]) -> None:
    left = folder_of(other)
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert (left / "cache/kernel").is_file()
    with scratch_folder("verify") as mine:
        assert not left.exists()
        assert mine.is_dir()
    assert not mine.exists()


@pytest.mark.parametrize("change", ["pid reused", "other world", "older name", "a file", "a link"])
def test_only_what_is_known_to_be_dead_is_removed(temporary: Path, change: str) -> None:
    with scratch_folder("verify") as mine:
        prefix, kind, pid, start, world, _ = mine.name.split("-", 5)
    names = {
        "pid reused": f"{prefix}-{kind}-{pid}-{int(start) + 1}-{world}-abc",
        "other world": f"{prefix}-{kind}-{2**22 + 1}-{start}-{'0' * 8}-abc",
        "older name": f"{prefix}-{kind}-abcd1234",
    }
    dead = f"{prefix}-{kind}-{2**22 + 1}-{start}-{world}-abc"
    path = temporary / names.get(change, dead)
    if change == "a file":
        path.touch()
    elif change == "a link":
        (temporary / "elsewhere").mkdir()
        path.symlink_to(temporary / "elsewhere")
    else:
        path.mkdir()
    with scratch_folder("verify"):
        assert path.exists() is (change != "pid reused")


def test_where_processes_cannot_be_told_nothing_is_removed(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with scratch_folder("verify") as mine:
        prefix, kind, _, start, world, _ = mine.name.split("-", 5)
    path = temporary / f"{prefix}-{kind}-{2**22 + 1}-{start}-{world}-abc"
    path.mkdir()
    monkeypatch.setattr("xpubuild.engine.temporary._PROC", temporary / "no proc")
    with scratch_folder("verify") as plain:
        assert path.is_dir()
        assert plain.is_dir()
