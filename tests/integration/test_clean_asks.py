"""``clean`` removes nothing that nobody agreed to."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest
from support.cli import XPUBUILD, here

from xpubuild.engine.journal import Journal


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    root = tmp_path / "ws"
    (root / "build").mkdir(parents=True)
    (root / "build" / "thing").write_text("made")
    with Journal(root / "journal.db") as journal:
        journal.add_made("a", [str(root / "build")])
    return root


def answered(answer: str, *words: str) -> tuple[int, str]:
    """Run clean with a terminal as its input, on which somebody types an answer."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer.encode())
        done = subprocess.run(
            [*XPUBUILD, "clean", *words], stdin=theirs, capture_output=True, text=True, check=False
        )
    finally:
        os.close(ours)
        os.close(theirs)
    return done.returncode, done.stdout


def test_without_a_terminal_it_wants_yes(workspace: Path) -> None:
    refused = here("clean", "--workspace", str(workspace))
    assert refused.status == 2, refused.err
    assert "--yes" in refused.err
    assert (workspace / "build" / "thing").read_text() == "made"
    assert here("clean", "--workspace", str(workspace), "--dry-run").status == 0
    assert here("clean", "--workspace", str(workspace), "--yes").status == 0
    assert not workspace.exists()


def test_no_at_the_question_removes_nothing(workspace: Path) -> None:
    assert answered("n\n", "--workspace", str(workspace)) == (0, "nothing removed\n")
    status, out = answered("n\n", "--workspace", str(workspace), "--json")
    assert (status, '"removed": []' in out) == (0, True), out
    assert (workspace / "build" / "thing").read_text() == "made"
    status, _ = answered("y\n", "--workspace", str(workspace))
    assert (status, workspace.exists()) == (0, False)
