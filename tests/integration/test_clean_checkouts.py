"""``clean`` removes checkouts that only lack or have what their recipe says, and keeps those with edits."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration.gitserver import git
from support.cli import child

from xpubuild.engine.journal import Journal
from xpubuild.engine.process import run

_URL = "https://git.example.org/torch.git"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A checkout with a submodule that was never fetched, and a file that the build wrote into it."""
    tree = tmp_path / "ws" / "src" / "torch"
    tree.mkdir(parents=True)
    git("init", "--quiet", cwd=tree)
    (tree / ".gitmodules").write_text(f'[submodule "left"]\n\tpath = left\n\turl = {_URL}\n')
    git("add", ".gitmodules", cwd=tree)
    git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},left", cwd=tree)
    git("commit", "--quiet", "-m", "a tree", cwd=tree)
    (tree / "made").mkdir()
    (tree / "made" / "version.py").write_text("1")
    return tree


def checked_out(tree: Path, *options: str) -> Path:
    """Write down that the workspace made the tree, with a command of these options."""
    root = tree.parents[1]
    argv = ["xpubuild", "plumbing", "checkout", _URL, "1" * 40, str(tree), *options]
    with Journal(root / "journal.db") as journal:
        journal.add_made("torch.source", [str(tree)])
        journal.begin("torch.source", "f" * 64)
        journal.command("torch.source", argv, run(["true"], env={}, cwd=root), "log")
    return root


def test_what_the_recipe_leaves_out_and_what_builds_make_is_no_edit(tree: Path) -> None:
    root = checked_out(tree, "--skip-submodule", "left", "--besides", "made")
    done = child("clean", "--workspace", str(root), "--yes")
    assert done.status == 0, done.err
    assert not tree.exists()


@pytest.mark.parametrize("options", [("--skip-submodule", "left"), ("--besides", "made"), ()])
def test_what_no_recipe_knows_keeps_the_checkout(tree: Path, options: tuple[str, ...]) -> None:
    root = checked_out(tree, *options)
    done = child("clean", "--workspace", str(root), "--yes")
    assert done.status == 0, done.err
    assert "it has local changes" in done.out
    assert (tree / "made" / "version.py").read_text() == "1"


def test_an_edit_beside_them_keeps_it(tree: Path) -> None:
    root = checked_out(tree, "--skip-submodule", "left", "--besides", "made")
    (tree / "mine.py").write_text("years of work")
    assert "it has local changes" in child("clean", "--workspace", str(root), "--yes").out
    assert (tree / "mine.py").exists()
