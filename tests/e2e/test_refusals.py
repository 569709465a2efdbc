"""Bad input and bad luck: the documented exit code, a message that helps, nothing of the user's lost."""

from __future__ import annotations

import os
import socket
import subprocess
from pathlib import Path

import pytest
from support.cli import Result, Xpubuild

from xpubuild.engine.lock import workspace_lock


def _site(folder: Path, body: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(f"schema: 1\nname: mine\nextends: quickstart\n{body}")
    return path


def _source(xpubuild: Xpubuild, workspace: Path, recipe: str | Path = "quickstart", *words: str) -> Result:
    """Install as far as the sources of ops, which takes no network."""
    words = ("--workspace", str(workspace), "--until", "ops.source", *words)
    return xpubuild("install", str(recipe), *words)


def test_abi_0_is_refused_before_any_work(xpubuild: Xpubuild, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    answer = xpubuild("install", "quickstart", "--cxx11-abi", "0", "--workspace", str(workspace))
    assert answer.status == 22
    assert "ABI 0" in answer.err
    assert "ABI 1" in answer.err
    assert "--cxx11-abi 1" in answer.err
    assert not workspace.exists()


def test_a_commit_that_the_embedded_sources_do_not_have(xpubuild: Xpubuild, tmp_path: Path) -> None:
    recipe = _site(tmp_path, f"components:\n  ops:\n    source: {{commit: '{'0' * 39}1'}}\n")
    answer = _source(xpubuild, tmp_path / "ws", recipe)
    assert answer.status == 31
    assert "0" * 39 + "1" in answer.err
    assert "log:" in answer.err


def test_an_unreachable_host(xpubuild: Xpubuild, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/ops.git"
        body = f"components:\n  ops:\n    source: {{embedded: null, url: '{url}', commit: {'a' * 40}}}\n"
        answer = _source(xpubuild, tmp_path / "ws", _site(tmp_path, body))
    assert answer.status == 30
    assert "127.0.0.1" in answer.err


def test_a_busy_workspace_a_lost_journal_and_a_folder_of_the_user(xpubuild: Xpubuild, tmp_path: Path) -> None:
    workspace = tmp_path / "ws"
    assert _source(xpubuild, workspace).status == 0
    with workspace_lock(workspace, command="xpubuild install quickstart"):
        busy = _source(xpubuild, workspace, "quickstart")
        assert busy.status == 75
        assert str(os.getpid()) in busy.err
        status = xpubuild.json("status", "--workspace", str(workspace))
        assert status["locked_by"]["pid"] == os.getpid()
    journal = workspace / "journal.db"
    for suffix in ("-wal", "-shm"):
        (workspace / f"journal.db{suffix}").unlink(missing_ok=True)
    journal.write_bytes(b"no database" * 300)
    advice = xpubuild("status", "--workspace", str(workspace))
    assert advice.status == 40
    assert "run the install again" in advice.err
    assert _source(xpubuild, workspace).status == 0
    assert list(workspace.glob("journal.db.damaged-*"))
    journal.unlink()
    assert _source(xpubuild, workspace).status == 0
    # Where the environment belongs.
    (workspace / "env").mkdir()
    (workspace / "env" / "mine").write_text("mine")
    answer = xpubuild("install", "quickstart", "--workspace", str(workspace), "--until", "env")
    assert answer.status in (2, 40)
    assert (workspace / "env" / "mine").read_text() == "mine"


def test_somebodys_folder_is_not_taken_for_a_workspace(xpubuild: Xpubuild, tmp_path: Path) -> None:
    mine = tmp_path / "project"
    (mine / "env").mkdir(parents=True)
    (mine / "env" / "thesis.tex").write_text("years of work")
    answer = xpubuild("install", "quickstart", "--workspace", str(mine))
    assert answer.status == 2
    assert "not empty" in answer.err
    assert (mine / "env" / "thesis.tex").read_text() == "years of work"
    file = tmp_path / "file"
    file.write_text("x")
    assert xpubuild("install", "quickstart", "--workspace", str(file)).status == 2


@pytest.mark.needs("mount")
def test_a_full_disk_ends_with_52_and_carries_on_after_room_is_made(
    xpubuild: Xpubuild, tmp_path: Path
) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=True)
    try:
        answer = xpubuild("install", "quickstart", "--workspace", str(place / "ws"))
        assert answer.status == 52
        assert "--workspace" in answer.err
        # A recipe that says it needs little gets past the early check and fills the disk for real.
        recipe = _site(tmp_path, "needs: {disk_gib: 0.01}\n")
        answer = xpubuild("install", str(recipe), "--workspace", str(place / "ws"))
        assert answer.status == 52
        assert "space" in answer.err
        (place / "mine").write_text("mine")
        subprocess.run(["mount", "-o", "remount,size=512m", place], check=True)
        assert _source(xpubuild, place / "ws", recipe).status == 0
        assert (place / "mine").read_text() == "mine"
    finally:
        subprocess.run(["umount", "-l", place], check=True)
