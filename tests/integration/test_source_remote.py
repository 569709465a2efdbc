"""Asking a real server where a tag or branch is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.gitserver import GitServer, Upstream, git, git_server

from xpubuild.errors import FetchError
from xpubuild.supply.git.bare import RepositoryStore, Retry
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.serving import named_commit


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.make(tmp_path / "repos" / "up stream.git")


@pytest.fixture
def server(upstream: Upstream) -> Iterator[GitServer]:
    with git_server(upstream.path.parent) as world:
        yield world


def ask(server: GitServer, ref: str, retry: Retry | None = None) -> str:
    store = RepositoryStore(Path("nowhere"), Git.open(), retry=retry or Retry())
    return named_commit(store, server.url("up stream.git"), ref)


def test_of_an_annotated_tag_the_commit_counts(server: GitServer, upstream: Upstream) -> None:
    commit = upstream.commit({"a": "1\n"})
    git("tag", "-a", "-m", "a release", "v1.0.0", commit, cwd=upstream.path)
    git("tag", "v1.0.1", commit, cwd=upstream.path)
    tag = git("rev-parse", "v1.0.0", cwd=upstream.path)
    assert tag != commit
    for ref in ("v1.0.0", "v1.0.1", "refs/tags/v1.0.0", "main", "refs/heads/main"):
        assert ask(server, ref) == commit


def test_a_tag_comes_before_a_branch_and_nothing_that_only_ends_alike(
    server: GitServer, upstream: Upstream
) -> None:
    tagged = upstream.commit({"a": "1\n"})
    git("tag", "both", tagged, cwd=upstream.path)
    branch = upstream.commit({"a": "2\n"}, branch="both")
    other = upstream.commit({"a": "3\n"}, branch="with/only")
    assert len({tagged, branch, other}) == 3
    assert ask(server, "both") == tagged
    assert ask(server, "refs/heads/both") == branch
    with pytest.raises(FetchError):
        ask(server, "only")


def test_a_busy_server_is_asked_again(server: GitServer, upstream: Upstream) -> None:
    commit = upstream.commit({"a": "1\n"})
    server.faults.fail = 1
    assert ask(server, "main") == commit


def test_it_ends_at_its_deadline(server: GitServer, upstream: Upstream) -> None:
    upstream.commit({"a": "1\n"})
    server.faults.hang = True
    begin = time.monotonic()
    with pytest.raises(FetchError) as caught:
        ask(server, "main", Retry(answer_s=1.5))
    assert time.monotonic() - begin < 30
    assert caught.value.evidence["reason"] == "timeout"
