"""Folders that others read while files in them come and go."""

from __future__ import annotations

import threading
from pathlib import Path

from xpubuild.engine.places import share


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
