"""Whether a checkout is as it was when it was last proved: one number for all of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from integration.gitserver import git

from xpubuild.supply.git.worktree import tree_stamp


def stamp(place: Path) -> int | None:
    """Return the number, as if nothing had been written for long."""
    return tree_stamp(place, settled_ns=-(10**18))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a work tree with another in it, as a submodule is."""
    top = tmp_path / "a tree"
    for place, files in ((top, ("run.sh", "doc/a")), (top / "third_party/inner", ("b",))):
        place.mkdir(parents=True)
        git("init", "--quiet", "-b", "main", cwd=place)
        for name in files:
            (place / name).parent.mkdir(exist_ok=True)
            (place / name).write_text("true\n")
        git("add", *files, cwd=place)
        git("commit", "--quiet", "-m", "1", cwd=place)
    return top


def _same_size_and_time(tree: Path) -> None:
    file = tree / "run.sh"
    before = file.stat()
    file.write_text("fals\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))


CHANGES: dict[str, Callable[[Path], object]] = {
    "content of the same size, its time set back": _same_size_and_time,
    "a new file": lambda tree: (tree / "doc" / "new").touch(),
    "a file gone": lambda tree: (tree / "doc" / "a").unlink(),
    "a mode": lambda tree: (tree / "run.sh").chmod(0o755),
    "a file in a submodule": lambda tree: (tree / "third_party/inner/b").write_text("3\n"),
    "a commit": lambda tree: git("commit", "--quiet", "--allow-empty", "-m", "own", cwd=tree),
    "what git is told not to look at": lambda tree: git(
        "update-index", "--assume-unchanged", "run.sh", cwd=tree
    ),
    "what git is told to ignore": lambda tree: (
        (tree / ".git/info").mkdir(exist_ok=True) or (tree / ".git/info/exclude").write_text("new\n")
    ),
    "a link in place of a file": lambda tree: (
        (tree / "doc/a").unlink() or (tree / "doc/a").symlink_to("../run.sh")
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_shows(tree: Path, change: str) -> None:
    before = stamp(tree)
    assert before is not None
    assert stamp(tree) == before
    CHANGES[change](tree)
    assert stamp(tree) != before


def test_a_repository_elsewhere_has_no_stamp(tree: Path, tmp_path: Path) -> None:
    inner = tree / "third_party/inner"
    (inner / ".git").rename(tree / ".git/modules")
    (inner / ".git").write_text("gitdir: ../../.git/modules\n")
    assert stamp(tree) is not None
    (tree / ".git/modules").rename(tmp_path / "elsewhere")
    (inner / ".git").write_text(f"gitdir: {tmp_path}/elsewhere\n")
    assert stamp(tree) is None


def test_objects_do_not_show(tree: Path) -> None:
    before = stamp(tree)
    (tree / ".git/objects/ff").mkdir()
    (tree / ".git/objects/ff/new").touch()
    assert stamp(tree) == before
    # A folder of that name in the tree itself is a folder like others.
    (tree / "objects").mkdir()
    (tree / "HEAD").touch()
    named = stamp(tree)
    (tree / "objects" / "a").touch()
    assert stamp(tree) not in (before, named)


def test_a_tree_that_was_just_written_has_none(tree: Path) -> None:
    assert tree_stamp(tree, settled_ns=10**18) is None
    assert tree_stamp(tree, settled_ns=time.time_ns() - (tree / "run.sh").stat().st_ctime_ns) is None
    assert tree_stamp(tree / "nowhere") is None
