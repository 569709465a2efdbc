"""Asking a real server where a tag or branch is."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.gitserver import GitServer, Upstream, closed_port, git, git_server

from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, InterruptedByUserError, RecipeError
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.remote import remote_commit


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.make(tmp_path / "repos" / "up stream.git")


@pytest.fixture
def server(upstream: Upstream) -> Iterator[GitServer]:
    with git_server(upstream.path.parent) as world:
        yield world


def ask(server: GitServer, ref: str, **options: object) -> str:
    return remote_commit(server.url("up stream.git"), ref, git=Git.open(), **options)  # type: ignore[arg-type]


def test_of_an_annotated_tag_the_commit_counts(server: GitServer, upstream: Upstream) -> None:
    commit = upstream.commit({"a": "1\n"})
    git("tag", "-a", "-m", "a release", "v1.0.0", commit, cwd=upstream.path)
    git("tag", "v1.0.1", commit, cwd=upstream.path)
    tag = git("rev-parse", "v1.0.0", cwd=upstream.path)
    assert tag != commit
    for ref in ("v1.0.0", "v1.0.1", "refs/tags/v1.0.0", "main", "refs/heads/main"):
        assert ask(server, ref) == commit


def test_a_branch_is_asked_for_its_head(server: GitServer, upstream: Upstream) -> None:
    first = upstream.commit({"a": "1\n"})
    assert ask(server, "main") == first
    second = upstream.commit({"a": "2\n"}, parent=first)
    assert ask(server, "main") == second


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


def test_a_ref_that_is_not_there(server: GitServer, upstream: Upstream) -> None:
    upstream.commit({"a": "1\n"})
    with pytest.raises(FetchError) as caught:
        ask(server, "v9.9.9")
    assert caught.value.exit_code == 30
    assert "v9.9.9" in caught.value.what
    assert "git ls-remote" in caught.value.commands[0]


def test_a_busy_server_is_asked_again(server: GitServer, upstream: Upstream) -> None:
    commit = upstream.commit({"a": "1\n"})
    server.faults.fail = 1
    assert ask(server, "main") == commit


def test_offline(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/x.git"
    with pytest.raises(FetchError) as caught:
        remote_commit(url, "main", git=Git.open(), deadline_s=1)
    assert caught.value.exit_code == 30
    assert "refuses the connection" in caught.value.why


def test_it_ends_at_its_deadline(server: GitServer, upstream: Upstream) -> None:
    upstream.commit({"a": "1\n"})
    server.faults.hang = True
    begin = time.monotonic()
    with pytest.raises(FetchError) as caught:
        ask(server, "main", deadline_s=1.5)
    assert time.monotonic() - begin < 30
    assert caught.value.evidence["reason"] == "timeout"


def test_it_can_be_stopped(server: GitServer, upstream: Upstream) -> None:
    upstream.commit({"a": "1\n"})
    server.faults.hang = True
    cancel = Cancel()
    timer = threading.Timer(0.5, cancel.set, ["a test"])
    timer.start()
    with pytest.raises(InterruptedByUserError):
        ask(server, "main", cancel=cancel, deadline_s=60)
    timer.join()


@pytest.mark.parametrize(
    ("url", "ref"),
    [("http://h/x", "--upload-pack=x"), ("http://h/x", "a b"), ("ext::sh -c x", "main"), ("-x", "main")],
)
def test_nothing_that_git_would_read_as_an_option(url: str, ref: str) -> None:
    with pytest.raises(RecipeError, match="cannot be looked up"):
        remote_commit(url, ref, git=Git.open())
