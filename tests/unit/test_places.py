"""Folders that others read while files in them come and go."""

from __future__ import annotations

import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from xpubuild.engine.places import existing_quoted, share


@pytest.fixture
def threads_in_turn() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("threads_in_turn")
def test_what_goes_away_meanwhile_is_no_error(tmp_path: Path) -> None:
    kept = tmp_path / "made"
    kept.mkdir(mode=0o700)
    (kept / "file").touch(mode=0o600)
    stop = threading.Event()

    def come_and_go() -> None:
        while not stop.is_set():
            folder = tmp_path / "partial"
            folder.mkdir()
            for name in "abcdefgh":
                (folder / name).touch()
            for name in "abcdefgh":
                (folder / name).unlink()
            folder.rmdir()

    other = threading.Thread(target=come_and_go)
    other.start()
    try:
        for _ in range(300):
            share(tmp_path)
    finally:
        stop.set()
        other.join()
    assert kept.stat().st_mode & 0o777 == 0o755
    assert (kept / "file").stat().st_mode & 0o777 == 0o644


def test_df_accepts_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    there = tmp_path / "with 'a quote"
    there.mkdir()
    word = existing_quoted(there / "not" / "made")
    assert shlex.split(word) == [str(there)]
    subprocess.run(["/bin/sh", "-c", f"df -h {word}"], check=True, capture_output=True, timeout=60)
    (there / "file").touch()
    assert shlex.split(existing_quoted(there / "file" / "below")) == [str(there / "file")]
