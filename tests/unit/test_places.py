"""Folders that others read while files in them come and go."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

from xpubuild.engine.places import existing_quoted


def test_df_accepts_the_nearest_folder_that_exists(tmp_path: Path) -> None:
    there = tmp_path / "with 'a quote"
    there.mkdir()
    word = existing_quoted(there / "not" / "made")
    assert shlex.split(word) == [str(there)]
    subprocess.run(["/bin/sh", "-c", f"df -h {word}"], check=True, capture_output=True, timeout=60)
    (there / "file").touch()
    assert shlex.split(existing_quoted(there / "file" / "below")) == [str(there / "file")]
