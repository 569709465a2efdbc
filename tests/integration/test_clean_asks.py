"""``clean`` removes nothing that nobody agreed to."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.gitserver import git
from support.cli import XPUBUILD, here

from xpubuild.engine.journal import Journal
from xpubuild.supply.git.worktree import write_done


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


# ---- ``clean`` removes checkouts of the pin, and keeps those that have more: edits, commits, a stash


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A finished checkout in a workspace: one commit, detached, no branch."""
    tree = tmp_path / "ws" / "src" / "torch"
    tree.mkdir(parents=True)
    git("init", "--quiet", "--initial-branch=main", cwd=tree)
    (tree / "setup.py").write_text("1")
    git("add", "setup.py", cwd=tree)
    git("commit", "--quiet", "-m", "the pin", cwd=tree)
    commit = git("rev-parse", "HEAD", cwd=tree).strip()
    git("checkout", "--quiet", "--detach", cwd=tree)
    git("branch", "--quiet", "-D", "main", cwd=tree)
    write_done(tree / ".git", commit)
    with Journal(tmp_path / "ws" / "journal.db") as journal:
        journal.add_made("torch.source", [str(tree)])
        journal.begin("torch.source", "f" * 64)
    return tree


def cleaned(tree: Path) -> str:
    done = here("clean", "--workspace", str(tree.parents[1]), "--yes")
    assert done.status == 0, done.err
    # A piped table is folded at 120 columns.
    return " ".join(done.out.split())


def commit(tree: Path) -> None:
    (tree / "setup.py").write_text("2")
    git("commit", "--quiet", "-a", "-m", "years of work", cwd=tree)


def stash(tree: Path) -> None:
    (tree / "setup.py").write_text("2")
    git("stash", "--quiet", cwd=tree)


def branch(tree: Path) -> None:
    """A commit on a branch, and back at the pin."""
    git("checkout", "--quiet", "-b", "mine", cwd=tree)
    commit(tree)
    git("checkout", "--quiet", "--detach", "HEAD^", cwd=tree)


def packed(tree: Path) -> None:
    branch(tree)
    git("pack-refs", "--all", cwd=tree)


def test_the_pin_alone_is_removed(tree: Path) -> None:
    cleaned(tree)
    assert not tree.exists()


@pytest.mark.parametrize("work", [commit, stash, branch, packed])
def test_what_git_holds_of_the_users_keeps_the_checkout(tree: Path, work: Callable[[Path], None]) -> None:
    work(tree)
    # A commit that is checked out is a change of the tree, as for install.
    kept = "commits, branches or a stash that xpubuild did not make"
    assert ("it has local changes" if work is commit else kept) in cleaned(tree)
    assert (tree / ".git").is_dir()


def test_an_edit_keeps_it(tree: Path) -> None:
    (tree / "mine.py").write_text("years of work")
    assert "it has local changes" in cleaned(tree)
    assert (tree / "mine.py").exists()


def test_what_is_kept_keeps_what_it_is_in(tree: Path) -> None:
    (tree / "mine.py").write_text("years of work")
    outer = tree.parent
    with Journal(outer.parent / "journal.db") as journal:
        journal.add_made("torch.source", [str(outer)])
    said = cleaned(tree)
    assert f"{tree} in it is kept" in said.replace("\n", " ")
    assert (tree / "mine.py").exists()
