"""What of a tree is somebody's work: commits and files of what a build has cloned into it, and pins."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import GIT_ENV, Upstream, git

from xpubuild.errors import SourceIntegrityError
from xpubuild.recipe.model import ConfigureTime
from xpubuild.supply.git.edits import EDITABLE, WHEEL
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.integrity import BuiltTreeProof, begin_build, verify_checkout
from xpubuild.supply.git.own_tree import OwnTree, own_tree, prepare_build
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.worktree import write_done

_PLACE, _PIN = "third_party/ops", "third_party/ops.txt"


@dataclass
class Tree:
    """A checkout into which a build clones ``ops``."""

    top: Path
    pin: Pin
    ops: Upstream
    first: str

    @property
    def items(self) -> list[ConfigureTime]:
        return [ConfigureTime(url=self.ops.path.as_uri(), path=_PLACE, pin_file=_PIN)]

    @property
    def clone(self) -> Path:
        return self.top / _PLACE

    def look(self) -> OwnTree | None:
        return own_tree(self.top, git=Git.open(), items=self.items)

    def configure(self, own: OwnTree | None) -> None:
        """Do what upstream's CMake does at each configure."""
        path = os.environ["PATH"]
        if own is not None:
            shim = self.top.parent / "bin" / "git"
            shim.parent.mkdir(exist_ok=True)
            shim.write_text(own.shim(self.top))
            shim.chmod(0o755)
            path = f"{shim.parent}:{path}"
        allow = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "protocol.file.allow",
            "GIT_CONFIG_VALUE_0": "always",
        }
        for words in (
            ("clone", "--quiet", self.ops.path.as_uri(), str(self.clone)),
            ("fetch", "--quiet"),
            ("checkout", "--quiet", (self.top / _PIN).read_text().strip()),
        ):
            if words[0] != "clone" or not self.clone.exists():
                cwd = self.clone if words[0] != "clone" else self.top
                subprocess.run(["git", *words], cwd=cwd, env={**GIT_ENV, **allow, "PATH": path}, check=True)

    def build(self, kind: str = WHEEL, *, dirty: bool = True) -> OwnTree | None:
        """Do what the step of a build does; return what the plan knew."""
        own, pin = self.look() if dirty else None, None if dirty else self.pin
        list(prepare_build(self.top, self.items if dirty else ()))
        begin_build(self.top, pin, kind, [_PLACE])
        self.configure(own)
        BuiltTreeProof(str(self.top), pin).check()
        return own

    def digest(self) -> str | None:
        own = self.look()
        return own.digest if own is not None else None


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    ops, top = Upstream.make(tmp_path / "ops.git"), Upstream.make(tmp_path / "top.git")
    first = ops.commit({"kernel.cpp": "1\n", ".gitignore": "*.o\n"})
    commit = top.commit({_PIN: f"{first}\n", ".gitignore": "build/\n"})
    git("clone", "--quiet", str(top.path), str(tmp_path / "tree"), cwd=tmp_path)
    return Tree(tmp_path / "tree", Pin(str(top.path), commit), ops, first)


def _commit(tree: Tree, text: str) -> str:
    (tree.clone / "kernel.cpp").write_text(text)
    git("commit", "--quiet", "-am", "mine", cwd=tree.clone)
    return git("rev-parse", "HEAD", cwd=tree.clone)


@pytest.mark.parametrize("kind", [WHEEL, EDITABLE])
def test_work_in_a_clone_counts_and_stays(tree: Tree, kind: str) -> None:
    tree.build(kind, dirty=False)
    assert tree.look() is None
    verify_checkout(tree.top, tree.pin)
    (tree.clone / "made.o").write_text("1")
    seen = {None if kind == EDITABLE else tree.digest()}
    git("switch", "--quiet", "-c", "work", cwd=tree.clone)
    for number, do in enumerate((
        lambda: (tree.clone / "kernel.cpp").write_text("2\n"),
        lambda: (tree.clone / "new.cpp").write_text("2\n"),
        lambda: _commit(tree, "3\n"),
        lambda: _commit(tree, "4\n"),
        lambda: git("commit", "--quiet", "--amend", "-m", "amended", cwd=tree.clone),
        (tree.clone / "new.cpp").unlink,
    )):  # fmt: skip
        do()
        head, status = git("rev-parse", "HEAD", cwd=tree.clone), git("status", "--porcelain", cwd=tree.clone)
        with pytest.raises(SourceIntegrityError) as refused:
            verify_checkout(tree.top, tree.pin)
        assert "--allow-dirty" in refused.value.fix
        assert _PLACE in refused.value.why
        planned = tree.digest()
        assert planned not in seen, number
        tree.build(kind)
        assert tree.digest() == planned, number
        assert git("symbolic-ref", "--short", "HEAD", cwd=tree.clone) == "work"
        assert git("rev-parse", "HEAD", cwd=tree.clone) == head
        assert git("status", "--porcelain", cwd=tree.clone) == status
        assert (tree.top / _PIN).read_text() == f"{head}\n"
        seen.add(planned)


def test_who_edits_the_pin_file_moves_what_a_build_has_cloned(tree: Tree) -> None:
    tree.build(dirty=False)
    newer = tree.ops.commit({"kernel.cpp": "9\n", ".gitignore": "*.o\n"}, parent=tree.first)
    newest = tree.ops.commit({"kernel.cpp": "10\n", ".gitignore": "*.o\n"}, parent=newer)
    for commit in (newer, newest, newer):
        (tree.top / _PIN).write_text(f"{commit}\n")
        planned = tree.digest()
        tree.build()
        assert git("rev-parse", "HEAD", cwd=tree.clone) == commit
        assert tree.digest() == planned


def test_who_goes_back_to_the_pin_has_the_pin_built(tree: Tree) -> None:
    tree.build(dirty=False)
    _commit(tree, "2\n")
    tree.build()
    git("checkout", "--quiet", tree.first, cwd=tree.clone)
    tree.build()
    assert git("rev-parse", "HEAD", cwd=tree.clone) == tree.first
    assert (tree.top / _PIN).read_text() == f"{tree.first}\n"
    own = tree.look()
    assert own is None or _PIN not in own.files


def test_a_build_that_was_killed_explains_no_edit(tree: Tree) -> None:
    begin_build(tree.top, tree.pin, EDITABLE, [_PLACE])
    tree.configure(None)
    (tree.clone / "kernel.cpp").write_text("2\n")
    own = tree.look()
    assert own is not None
    assert own.files == (f"{_PLACE}/kernel.cpp",)


def test_a_commit_of_the_tree_itself_counts(tree: Tree) -> None:
    write_done(tree.top / ".git", tree.pin.commit)
    assert tree.look() is None
    git("commit", "--quiet", "--allow-empty", "-m", "mine", cwd=tree.top)
    own = own_tree(tree.top, git=Git.open(), pin=tree.pin.commit)
    assert own is not None
    assert "1 commits ahead of the pin" in own.summary()
