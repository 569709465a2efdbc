"""Mirrors against a real server: shallow by id, fall-backs, retries, and errors that say which."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.gitserver import GitServer, Upstream, git, git_server
from integration.source_mirrors import ensured, noise, refusal, store_in

from xpubuild.supply.git.bare import BareRepository


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.make(tmp_path / "srv" / "ein Projekt.git")


@pytest.fixture
def server(upstream: Upstream) -> Iterator[GitServer]:
    with git_server(upstream.path.parent) as running:
        yield running


def _objects(mirror: BareRepository, commit: str) -> list[str]:
    return git("rev-list", "--objects", commit, cwd=mirror.path).split("\n")


def test_one_commit_is_fetched_shallow_and_the_second_time_without_the_network(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    old = upstream.commit({"a": "1\n", "gone": "x\n"})
    commit = upstream.commit({"a": "2\n"}, parent=old)
    upstream.commit({"a": "3\n"}, parent=commit)
    mirror = store_in(tmp_path).mirror(server.url(upstream.path.name), commit)
    used, lines = ensured(mirror, commit)
    assert used
    assert any(line.startswith("Receiving objects: 100%") for line in lines)
    assert len(_objects(mirror, commit)) == 3  # commit, tree, one blob
    assert (mirror.path / "shallow").read_text().split() == [commit]
    asked = len(server.requests)
    assert ensured(mirror, commit) == (False, [])
    assert len(server.requests) == asked
    assert (mirror.path.parent / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f59")


def test_a_second_pin_goes_into_the_same_mirror(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    one = upstream.commit({"a": noise(1)})
    two = upstream.commit({"a": noise(1), "b": "2\n"}, parent=one)
    store = store_in(tmp_path)
    for commit in (two, one):
        mirror = store.mirror(server.url(upstream.path.name), commit)
        assert ensured(mirror, commit)[0]
    assert [path.name for path in mirror.path.parent.glob("*.git")] == [mirror.path.name]
    for commit in (one, two):
        assert not ensured(mirror, commit)[0]


def test_of_a_server_that_gives_no_single_commits_the_whole_repository_is_fetched(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    server.faults.old_protocol = True
    commit = upstream.commit({"a": "1\n"})
    upstream.commit({"a": "2\n"}, parent=commit)
    mirror = store_in(tmp_path).mirror(server.url(upstream.path.name), commit)
    _, lines = ensured(mirror, commit)
    assert any("fetching the complete repository" in line for line in lines)
    assert not ensured(mirror, commit)[0]


def test_a_cut_connection_is_tried_again(tmp_path: Path, upstream: Upstream, server: GitServer) -> None:
    commit = upstream.commit({"a": noise(1)})
    server.faults.cut = 2
    mirror = store_in(tmp_path).mirror(server.url(upstream.path.name), commit)
    used, lines = ensured(mirror, commit)
    assert used
    assert sum("cut; trying again" in line for line in lines) == 2
    assert not list(mirror.path.glob("objects/pack/tmp_*"))


def test_what_never_gets_better_ends_with_the_reason(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": noise(1)})
    mirror = store_in(tmp_path).mirror(server.url(upstream.path.name), commit)
    server.faults.cut = 99
    assert refusal(mirror, commit).evidence["reason"] == "cut"
    server.faults.fail = 99
    assert refusal(mirror, commit).evidence["reason"] == "server"
    server.faults.fail, server.faults.credentials = 0, "me:secret"
    assert refusal(mirror, commit).evidence["reason"] == "auth"
    server.faults.credentials, server.faults.cut = "", 0
    assert ensured(mirror, commit)[0]


@pytest.mark.parametrize("old_protocol", [False, True])
def test_a_commit_that_the_server_lacks_says_so(
    tmp_path: Path, upstream: Upstream, server: GitServer, old_protocol: bool
) -> None:
    server.faults.old_protocol = old_protocol
    upstream.commit({"a": "1\n"})
    error = refusal(store_in(tmp_path).mirror(server.url(upstream.path.name), "a" * 40), "a" * 40)
    assert error.evidence["reason"] == "commit"
    assert "a" * 40 in error.what


def test_offline_says_what_is_missing_and_takes_what_is_there(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": "1\n"})
    url = server.url(upstream.path.name)
    offline = store_in(tmp_path, offline=True).mirror(url, commit)
    assert refusal(offline, commit).evidence["reason"] == "offline"
    assert server.requests == []
    ensured(store_in(tmp_path).mirror(url, commit), commit)
    assert not ensured(offline, commit)[0]


def test_a_sha256_repository_gets_a_mirror_of_its_kind(tmp_path: Path) -> None:
    place = tmp_path / "srv" / "x.git"
    place.mkdir(parents=True)
    git("init", "--quiet", "--bare", "--object-format=sha256", ".", cwd=place)
    commit = Upstream(place).commit({"a": "1\n"})
    assert len(commit) == 64
    with git_server(place.parent) as server:
        mirror = store_in(tmp_path).mirror(server.url("x.git"), commit)
        ensured(mirror, commit)
    assert not ensured(mirror, commit)[0]
