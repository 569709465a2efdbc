"""Mirrors against a real server: shallow by id, fall-backs, retries, damage, and errors that say which."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from integration.gitserver import GitServer, Upstream, closed_port, git, git_server

from xpubuild.engine.environment import base_environment
from xpubuild.errors import FetchError, RecipeError, SourceIntegrityError, XpuBuildError
from xpubuild.source.fetching import Retry
from xpubuild.source.git import Git
from xpubuild.source.mirror import Mirror, MirrorStore

_FAST = Retry(attempts=4, first_delay_s=0.01, stall_s=20)


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.make(tmp_path / "srv" / "ein Projekt.git")


@pytest.fixture
def server(upstream: Upstream) -> Iterator[GitServer]:
    with git_server(upstream.path.parent) as running:
        yield running


def _store(tmp_path: Path, *, offline: bool = False, retry: Retry = _FAST) -> MirrorStore:
    return MirrorStore(tmp_path / "cache ü", Git.open(base_environment()), offline=offline, retry=retry)


def _noise(seed: int, size: int = 40_000) -> bytes:
    return random.Random(seed).randbytes(size)  # noqa: S311 - does not compress: the pack is longer than a cut


def _ensure(mirror: Mirror, commit: str, ref: str | None = None) -> tuple[bool, list[str]]:
    lines: list[str] = []
    return mirror.ensure(commit, ref=ref, report=lines.append), lines


def _objects(mirror: Mirror, commit: str) -> list[str]:
    return git("rev-list", "--objects", commit, cwd=mirror.path).split("\n")


def test_one_commit_is_fetched_shallow_and_the_second_time_without_the_network(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    old = upstream.commit({"a": "1\n", "gone": "x\n"})
    commit = upstream.commit({"a": "2\n"}, parent=old)
    upstream.commit({"a": "3\n"}, parent=commit)
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    used, lines = _ensure(mirror, commit)
    assert used
    assert any(line.startswith("Receiving objects: 100%") for line in lines)
    assert len(_objects(mirror, commit)) == 3  # commit, tree, one blob
    assert (mirror.path / "shallow").read_text().split() == [commit]
    asked = len(server.requests)
    assert _ensure(mirror, commit) == (False, [])
    assert len(server.requests) == asked
    assert (mirror.path.parent / "CACHEDIR.TAG").read_bytes().startswith(b"Signature: 8a477f59")


def test_a_second_pin_goes_into_the_same_mirror(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    one = upstream.commit({"a": _noise(1)})
    two = upstream.commit({"a": _noise(1), "b": "2\n"}, parent=one)
    store = _store(tmp_path)
    for commit in (two, one):
        mirror = store.mirror(server.url(upstream.path.name), commit)
        assert _ensure(mirror, commit)[0]
    assert [path.name for path in mirror.path.parent.glob("*.git")] == [mirror.path.name]
    for commit in (one, two):
        assert not _ensure(mirror, commit)[0]


def test_a_server_that_gives_no_single_commits_is_asked_for_the_ref(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    server.faults.old_protocol = True
    first = upstream.commit({"a": "1\n"})
    tagged = upstream.commit({"a": "2\n"}, parent=first)
    git("tag", "-a", "-m", "a release", "v1.0", tagged, cwd=upstream.path)
    upstream.commit({"a": "3\n"}, parent=tagged)
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), tagged)
    _ensure(mirror, tagged, ref="v1.0")
    assert (mirror.path / "shallow").exists()
    assert len(_objects(mirror, tagged)) == 3


@pytest.mark.parametrize("ref", [None, "main", "no-such-tag"])
def test_without_a_ref_that_helps_the_whole_repository_is_fetched(
    tmp_path: Path, upstream: Upstream, server: GitServer, ref: str | None
) -> None:
    server.faults.old_protocol = True
    commit = upstream.commit({"a": "1\n"})
    upstream.commit({"a": "2\n"}, parent=commit)
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    _, lines = _ensure(mirror, commit, ref=ref)
    assert any("fetching the whole repository" in line for line in lines)
    assert not _ensure(mirror, commit)[0]


def test_the_whole_repository_can_follow_a_shallow_one(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    first = upstream.commit({"a": "1\n"})
    second = upstream.commit({"a": "2\n"}, parent=first)
    third = upstream.commit({"a": "3\n"}, parent=second)
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), third)
    _ensure(mirror, third)
    server.faults.old_protocol = True
    _ensure(mirror, first)
    _ensure(mirror, second)
    assert len(_objects(mirror, third)) == 9


def test_a_cut_connection_is_tried_again(tmp_path: Path, upstream: Upstream, server: GitServer) -> None:
    commit = upstream.commit({"a": _noise(1)})
    server.faults.cut = 2
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    used, lines = _ensure(mirror, commit)
    assert used
    assert sum("cut; trying again" in line for line in lines) == 2
    assert not list(mirror.path.glob("objects/pack/tmp_*"))


def test_an_overloaded_server_is_tried_again(tmp_path: Path, upstream: Upstream, server: GitServer) -> None:
    commit = upstream.commit({"a": "1\n"})
    server.faults.fail = 3
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    _, lines = _ensure(mirror, commit)
    assert sum("server; trying again" in line for line in lines) == 3


def _refusal(mirror: Mirror, commit: str) -> XpuBuildError:
    with pytest.raises(FetchError) as caught:
        _ensure(mirror, commit)
    error = caught.value
    assert error.exit_code == 30
    assert mirror.url in error.what
    assert error.why
    assert error.fix
    return error


def test_what_never_gets_better_ends_with_the_reason(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": _noise(1)})
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    server.faults.cut = 99
    assert _refusal(mirror, commit).evidence["reason"] == "cut"
    server.faults.fail = 99
    assert _refusal(mirror, commit).evidence["reason"] == "server"
    server.faults.fail, server.faults.credentials = 0, "me:secret"
    assert _refusal(mirror, commit).evidence["reason"] == "auth"
    server.faults.credentials, server.faults.cut = "", 0
    assert _ensure(mirror, commit)[0]


def test_a_silent_server_ends_with_a_timeout(tmp_path: Path, upstream: Upstream, server: GitServer) -> None:
    server.faults.hang = True
    retry = Retry(attempts=1, stall_s=0.4)
    mirror = _store(tmp_path, retry=retry).mirror(server.url(upstream.path.name), "a" * 40)
    assert _refusal(mirror, "a" * 40).evidence["reason"] == "timeout"


def test_an_unreachable_port_says_so(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{closed_port()}/x.git"
    error = _refusal(_store(tmp_path).mirror(url, "a" * 40), "a" * 40)
    assert error.evidence["reason"] == "refused"
    assert "refuses the connection" in error.why


def test_a_missing_repository_says_so(tmp_path: Path, server: GitServer) -> None:
    for url in (server.url("no-such.git"), str(tmp_path / "nowhere"), (tmp_path / "nowhere").as_uri()):
        error = _refusal(_store(tmp_path).mirror(url, "a" * 40), "a" * 40)
        assert error.evidence["reason"] == "not-found"


@pytest.mark.parametrize("old_protocol", [False, True])
def test_a_commit_that_the_server_lacks_says_so(
    tmp_path: Path, upstream: Upstream, server: GitServer, old_protocol: bool
) -> None:
    server.faults.old_protocol = old_protocol
    upstream.commit({"a": "1\n"})
    error = _refusal(_store(tmp_path).mirror(server.url(upstream.path.name), "a" * 40), "a" * 40)
    assert error.evidence["reason"] == "commit"
    assert "a" * 40 in error.what


def test_a_tag_object_is_no_pin(tmp_path: Path, upstream: Upstream, server: GitServer) -> None:
    commit = upstream.commit({"a": "1\n"})
    git("tag", "-a", "-m", "a release", "v1", commit, cwd=upstream.path)
    tag = git("rev-parse", "v1", cwd=upstream.path)
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), tag)
    with pytest.raises(RecipeError, match="is a tag, not a commit") as caught:
        _ensure(mirror, tag)
    assert commit in caught.value.fix
    _ensure(mirror, commit)


def test_offline_says_what_is_missing_and_takes_what_is_there(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": "1\n"})
    url = server.url(upstream.path.name)
    offline = _store(tmp_path, offline=True).mirror(url, commit)
    assert _refusal(offline, commit).evidence["reason"] == "offline"
    assert server.requests == []
    _ensure(_store(tmp_path).mirror(url, commit), commit)
    assert not _ensure(offline, commit)[0]


def _damage_pack(mirror: Mirror) -> None:
    pack = next(mirror.path.glob("objects/pack/*.pack"))
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 64):
        data[place] ^= 0xFF
    pack.write_bytes(bytes(data))


def test_a_tampered_object_is_found_on_delivery_and_the_mirror_is_fetched_anew(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": _noise(1), "b": "2\n"})
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    _ensure(mirror, commit)
    _damage_pack(mirror)
    into = Upstream.make(tmp_path / "into.git")
    lines: list[str] = []
    mirror.deliver(commit, into.path, ref=None, report=lines.append)
    assert any("damaged" in line for line in lines)
    assert git("cat-file", "-s", f"{commit}:a", cwd=into.path) == "40000"
    git("fsck", "--full", cwd=mirror.path)
    assert mirror.path.with_suffix(".damaged").is_dir()


def test_a_tampered_object_is_not_delivered_where_the_server_is_gone(
    tmp_path: Path, upstream: Upstream
) -> None:
    commit = upstream.commit({"a": _noise(1)})
    with git_server(upstream.path.parent) as server:
        mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
        _ensure(mirror, commit)
    _damage_pack(mirror)
    into = Upstream.make(tmp_path / "into.git")
    with pytest.raises(FetchError):
        mirror.deliver(commit, into.path, ref=None, report=lambda _: None)
    assert subprocess.run(["git", "cat-file", "-e", commit], cwd=into.path, check=False).returncode != 0


def test_a_mirror_that_lost_objects_is_fetched_anew(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": "1\n", "b": "2\n"})
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    _ensure(mirror, commit)
    pack = next(mirror.path.glob("objects/pack/*.pack"))
    outside = tmp_path / pack.name
    pack.rename(outside)
    pack.with_suffix(".idx").unlink()
    git("unpack-objects", "-q", cwd=mirror.path, stdin=outside.read_bytes())
    blob = git("rev-parse", f"{commit}:b", cwd=mirror.path)
    (mirror.path / "objects" / blob[:2] / blob[2:]).unlink()
    assert _ensure(mirror, commit)[0]
    git("fsck", "--full", cwd=mirror.path)


@pytest.mark.parametrize("broken", ["HEAD", "config", "shallow", "packed-refs"])
def test_a_mirror_with_a_broken_file_is_fetched_anew(
    tmp_path: Path, upstream: Upstream, server: GitServer, broken: str
) -> None:
    commit = upstream.commit({"a": "1\n"})
    mirror = _store(tmp_path).mirror(server.url(upstream.path.name), commit)
    _ensure(mirror, commit)
    (mirror.path / broken).write_bytes(b"\0\0garbage")  # what a power cut leaves
    assert _ensure(mirror, commit)[0]
    assert not _ensure(mirror, commit)[0]


def test_what_a_killed_git_left_does_not_stop_the_next_fetch(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    one = upstream.commit({"a": "1\n"})
    two = upstream.commit({"a": "2\n"}, parent=one)
    store = _store(tmp_path)
    mirror = store.mirror(server.url(upstream.path.name), one)
    _ensure(mirror, one)
    left = ["shallow.lock", "config.lock", "packed-refs.lock", f"refs/xpubuild/pins/{two}.lock"]
    left += ["objects/pack/tmp_pack_a1b2c3", "objects/pack/tmp_idx_a1b2c3"]
    for name in left:
        (mirror.path / name).write_bytes(b"half")
    assert _ensure(mirror, two)[0]
    assert not [name for name in left if (mirror.path / name).exists()]
    assert not mirror.path.with_suffix(".damaged").exists()


def test_upstream_history_with_old_spellings_is_accepted_and_a_dangerous_tree_is_not(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    blob = git("hash-object", "-w", "--stdin", cwd=upstream.path, stdin=b"x\n")
    raw = bytes.fromhex(blob)

    def commit_of(tree_data: bytes) -> str:
        literally = ("hash-object", "-w", "-t", "tree", "--literally", "--stdin")
        tree = git(*literally, cwd=upstream.path, stdin=tree_data)
        commit = git("commit-tree", "-m", "x", tree, cwd=upstream.path)
        git("update-ref", f"refs/heads/{commit}", commit, cwd=upstream.path)
        return commit

    padded = commit_of(b"0100644 a\0" + raw)
    dangerous = commit_of(b"100644 .git\0" + raw)
    store = _store(tmp_path)
    mirror = store.mirror(server.url(upstream.path.name), padded)
    _ensure(mirror, padded)
    with pytest.raises(SourceIntegrityError, match="git refused an object") as caught:
        _ensure(mirror, dangerous)
    assert "hasDotgit" in caught.value.why


def test_a_sha256_repository_gets_a_mirror_of_its_kind(tmp_path: Path) -> None:
    place = tmp_path / "srv" / "x.git"
    place.mkdir(parents=True)
    git("init", "--quiet", "--bare", "--object-format=sha256", ".", cwd=place)
    commit = Upstream(place).commit({"a": "1\n"})
    assert len(commit) == 64
    with git_server(place.parent) as server:
        mirror = _store(tmp_path).mirror(server.url("x.git"), commit)
        _ensure(mirror, commit)
    assert not _ensure(mirror, commit)[0]


def test_a_mirror_of_another_owner_is_used_and_a_source_of_another_owner_is_explained(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": "1\n"})
    plain = _store(tmp_path)
    other_owner = plain.git.env | {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}  # git's own switch for its tests
    store = replace(plain, git=plain.git.with_env(other_owner))
    mirror = store.mirror(server.url(upstream.path.name), commit)
    _ensure(mirror, commit)
    mirror.deliver(commit, Upstream.make(tmp_path / "into.git").path, ref=None, report=lambda _: None)
    error = _refusal(store.mirror(str(upstream.path), commit), commit)
    assert error.evidence["reason"] == "owner"
    assert error.commands == (f"git config --global --add safe.directory '{upstream.path}'",)


def test_two_threads_fetch_once(tmp_path: Path, upstream: Upstream, server: GitServer) -> None:
    commit = upstream.commit({"a": _noise(1, 400_000)})
    store = _store(tmp_path)
    used: list[bool] = []

    def fetch() -> None:
        used.append(_ensure(store.mirror(server.url(upstream.path.name), commit), commit)[0])

    threads = [threading.Thread(target=fetch) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(used) == [False, False, True]
    assert len(server.requests) == 2


_ON_A_FULL_DISK = """
    import sys
    from pathlib import Path
    from xpubuild.engine.environment import base_environment
    from xpubuild.errors import NoSpaceError
    from xpubuild.source.git import Git
    from xpubuild.source.mirror import MirrorStore
    store = MirrorStore(Path(sys.argv[1]), Git.open(base_environment()))
    mirror = store.mirror(sys.argv[2], sys.argv[3])
    try:
        mirror.ensure(sys.argv[3], ref=None, report=print)
    except NoSpaceError as error:
        print(error.what, "|", error.why)
        print("left:", sorted(path.name for path in mirror.path.glob("objects/pack/tmp*")))
        sys.exit(error.exit_code)
"""


def test_a_full_disk_has_its_own_exit_code_and_leaves_no_half_pack(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": _noise(1, 3_000_000)})
    disk = tmp_path / "small disk"
    disk.mkdir()
    script = tmp_path / "fetch.py"
    script.write_text(textwrap.dedent(_ON_A_FULL_DISK))
    mount = 'mount -t tmpfs -o size=1m tmpfs "$1" && exec "$2" "$3" "$1" "$4" "$5"'
    own_mounts = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--mount"]
    done = subprocess.run(
        [*own_mounts, "sh", "-c", mount, "sh", str(disk), sys.executable, str(script),
         server.url(upstream.path.name), commit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 52, done.stdout + done.stderr
    assert "no space left while fetching" in done.stdout
    assert "left: []" in done.stdout
