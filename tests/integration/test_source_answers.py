"""Rare failures of git and of repositories, each as the whole error that a person reads."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.gitserver import git

from xpubuild.engine.process import Cancel
from xpubuild.errors import XpuBuildError
from xpubuild.supply.git import submodules
from xpubuild.supply.git.bare import RepositoryStore, Retry
from xpubuild.supply.git.edits import MoveTraces
from xpubuild.supply.git.git import Git, locked
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.serving import (
    named_commit,
    remember,
    remote_tags,
)
from xpubuild.supply.git.submodules import discover
from xpubuild.supply.git.worktree import inspect

NOBODY = "0" * 39 + "1"


@dataclass(frozen=True)
class Upstream:
    """A repository with a work tree."""

    path: Path

    def commit(self, files: dict[str, str]) -> str:
        """Add these files, and return the commit."""
        for name, text in files.items():
            (self.path / name).write_text(text)
        git("add", *files, cwd=self.path)
        git("commit", "--quiet", "-m", "x", cwd=self.path)
        return head(self)


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    made = Upstream(tmp_path / "up")
    made.path.mkdir()
    git("init", "--quiet", "-b", "main", ".", cwd=made.path)
    made.commit({"a.txt": "a\n"})
    return made


def head(upstream: Upstream) -> str:
    return git("rev-parse", "HEAD", cwd=upstream.path).strip()


def store(tmp_path: Path, *, offline: bool = False) -> RepositoryStore:
    return RepositoryStore(tmp_path / "cache", Git.open(), offline=offline, retry=Retry(1, 0.0, 60.0))


def silent(_: str) -> None:
    """Drop a line."""


def not_in_a_mirror(_: Upstream, folder: Path) -> object:
    return store(folder, offline=True).mirror("https://h.example/x", NOBODY).ensure(NOBODY, report=silent)


def a_tree_and_no_commit(upstream: Upstream, folder: Path) -> object:
    tree = git("rev-parse", "HEAD^{tree}", cwd=upstream.path).strip()
    return store(folder).mirror(upstream.path.as_uri(), tree).ensure(tree, report=silent)


def a_tag_and_no_commit(upstream: Upstream, folder: Path) -> object:
    git("tag", "-a", "-m", "x", "v1", cwd=upstream.path)
    tag = git("rev-parse", "v1", cwd=upstream.path).strip()
    return store(folder).mirror(upstream.path.as_uri(), tag).ensure(tag, report=silent)


ACTS: dict[Callable[[Upstream, Path], object], tuple[int, str]] = {
    not_in_a_mirror: (30, "the run is offline"),
    a_tree_and_no_commit: (20, "is a tree, not a commit"),
    a_tag_and_no_commit: (20, "is a tag, not a commit"),
}  # fmt: skip


@pytest.mark.parametrize("act", ACTS)
def test_what_is_not_as_it_should_be(
    act: Callable[[Upstream, Path], object], upstream: Upstream, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    code, said = ACTS[act]
    with pytest.raises(XpuBuildError) as caught:
        act(upstream, folder)
    assert caught.value.exit_code == code
    assert said in f"{caught.value.what}: {caught.value.why}"
    assert caught.value.fix


def test_there_is_an_end_to_submodules(
    upstream: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (upstream.path / ".gitmodules").write_text(
        f'[submodule "s"]\n\tpath = s\n\turl = {upstream.path.as_uri()}\n'
    )
    first = head(upstream)
    git("add", ".gitmodules", cwd=upstream.path)
    git("update-index", "--add", "--cacheinfo", f"160000,{first},s", cwd=upstream.path)
    git("commit", "--quiet", "-m", "x", cwd=upstream.path)
    pin = Pin(upstream.path.as_uri(), head(upstream))
    for limit in ("_MOST", "_DEEPEST"):
        with monkeypatch.context() as patch:
            patch.setattr(submodules, limit, 1 if limit == "_MOST" else 0)
            with pytest.raises(XpuBuildError):
                discover(store(tmp_path), pin, jobs=1, report=silent)
    tree = discover(store(tmp_path), pin, jobs=1, report=silent)
    assert [(node.path, node.commit, node.parent, node.depth) for node in tree.nodes] == [
        ("", pin.commit, None, 0),
        ("s", first, "", 1),
    ]


def test_a_name_that_was_noted_is_known_offline(upstream: Upstream, tmp_path: Path) -> None:
    online, url, commit = store(tmp_path), upstream.path.as_uri(), head(upstream)
    assert online.mirror(url, commit).ensure(commit, report=silent)
    assert not online.mirror(url, commit).ensure(commit, report=silent)
    remember(online, url, "v7", commit)
    assert named_commit(store(tmp_path, offline=True), url, "v7") == commit


def test_tags_are_those_of_versions_each_with_its_commit(upstream: Upstream, tmp_path: Path) -> None:
    commit, url = head(upstream), upstream.path.as_uri()
    for words in (["v1"], ["-a", "-m", "x", "v2.0"], ["other"], ["vx"]):
        git("tag", *words, cwd=upstream.path)
    assert remote_tags(store(tmp_path), url) == {"v1": commit, "v2.0": commit}
    for ref in ("v2.0", "refs/tags/v2.0"):
        assert named_commit(store(tmp_path), url, ref) == commit


def test_a_file_is_ours_only_as_git_writes_it(upstream: Upstream) -> None:
    top = upstream.path
    (top / "link").symlink_to("a.txt")
    git("add", "link", cwd=top)
    git("update-index", "--add", "--cacheinfo", f"160000,{NOBODY},sub", cwd=top)
    git("commit", "--quiet", "-m", "x", cwd=top)
    repository = inspect(Git.open(), "", top, top / ".git")
    traces = MoveTraces(Git.open(), repository, [head(upstream), NOBODY])
    (top / "sub").mkdir(exist_ok=True)
    assert [traces.wrote(name) for name in ("a.txt", "link", "sub", "none")] == [True, True, True, False]
    (top / "sub").rmdir()
    (top / "sub").symlink_to("/")
    (top / "a.txt").unlink()
    assert traces.wrote("a.txt"), "git was stopped before it wrote it"
    (top / "a.txt").symlink_to("link")
    (top / "link").unlink()
    (top / "link").symlink_to("other")
    assert [traces.wrote(name) for name in ("a.txt", "link", "sub")] == [False, False, False]
    (top / "link").unlink()
    (top / "link").write_text("a.txt")
    (top / "a.txt").unlink()
    (top / "a.txt").mkdir()
    assert [traces.wrote(name) for name in ("a.txt", "link")] == [False, False]


def test_who_waits_for_a_lock_can_be_stopped_and_is_told(tmp_path: Path) -> None:
    told: list[str] = []
    cancel = Cancel()

    def tell(text: str) -> None:
        told.append(text)
        cancel.set("stopped")

    with (
        locked(tmp_path / "a" / "x.lock"),
        pytest.raises(XpuBuildError),
        locked(tmp_path / "a" / "x.lock", cancel=cancel, report=tell, use="reads it"),
    ):
        pass
    assert told == ["waiting for another xpubuild that reads it"]
    with locked(tmp_path / "x", shared=True), locked(tmp_path / "x", shared=True) as descriptor:
        assert os.fstat(descriptor).st_size == 0
