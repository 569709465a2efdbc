"""Mirrors against a real server: shallow by id, fall-backs, retries, and errors that say which."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from integration.gitserver import GitServer, Upstream, git, git_server
from integration.source_mirrors import ensured, noise, refusal, store_in

from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.bare import BareRepository
from xpubuild.supply.git.git import Git


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


# ---- Mirrors that are damaged, cut off, shared or out of space


def _damage_pack(mirror: BareRepository) -> None:
    pack = next(mirror.path.glob("objects/pack/*.pack"))
    pack.chmod(0o644)
    data = bytearray(pack.read_bytes())
    for place in range(len(data) // 2, len(data) // 2 + 64):
        data[place] ^= 0xFF
    pack.write_bytes(bytes(data))


def test_a_tampered_object_is_found_on_delivery_and_the_mirror_is_fetched_anew(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": noise(1), "b": "2\n"})
    mirror = store_in(tmp_path).mirror(server.url(upstream.path.name), commit)
    ensured(mirror, commit)
    _damage_pack(mirror)
    into = Upstream.make(tmp_path / "into.git")
    lines: list[str] = []
    mirror.deliver(commit, into.path, report=lines.append)
    assert any("damaged" in line for line in lines)
    assert git("cat-file", "-s", f"{commit}:a", cwd=into.path) == "40000"
    git("fsck", "--full", cwd=mirror.path)
    assert mirror.path.with_suffix(".damaged").is_dir()


def test_a_mirror_that_lost_objects_is_fetched_anew(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": "1\n", "b": "2\n"})
    mirror = store_in(tmp_path).mirror(server.url(upstream.path.name), commit)
    ensured(mirror, commit)
    pack = next(mirror.path.glob("objects/pack/*.pack"))
    outside = tmp_path / pack.name
    pack.rename(outside)
    pack.with_suffix(".idx").unlink()
    git("unpack-objects", "-q", cwd=mirror.path, stdin=outside.read_bytes())
    blob = git("rev-parse", f"{commit}:b", cwd=mirror.path)
    (mirror.path / "objects" / blob[:2] / blob[2:]).unlink()
    assert ensured(mirror, commit)[0]
    git("fsck", "--full", cwd=mirror.path)


@pytest.mark.parametrize("broken", ["HEAD", "shallow"])
def test_a_mirror_with_a_broken_file_is_fetched_anew(
    tmp_path: Path, upstream: Upstream, server: GitServer, broken: str
) -> None:
    commit = upstream.commit({"a": "1\n"})
    mirror = store_in(tmp_path).mirror(server.url(upstream.path.name), commit)
    ensured(mirror, commit)
    (mirror.path / broken).write_bytes(b"\0\0garbage")  # what a power cut leaves
    assert ensured(mirror, commit)[0]
    assert not ensured(mirror, commit)[0]


def test_what_a_killed_git_left_does_not_stop_the_next_fetch(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    one = upstream.commit({"a": "1\n"})
    two = upstream.commit({"a": "2\n"}, parent=one)
    store = store_in(tmp_path)
    mirror = store.mirror(server.url(upstream.path.name), one)
    ensured(mirror, one)
    left = ["shallow.lock", "config.lock", "packed-refs.lock", f"refs/xpubuild/pins/{two}.lock"]
    left += ["objects/pack/tmp_pack_a1b2c3", "objects/pack/tmp_idx_a1b2c3"]
    for name in left:
        (mirror.path / name).write_bytes(b"half")
    assert ensured(mirror, two)[0]
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
    store = store_in(tmp_path)
    mirror = store.mirror(server.url(upstream.path.name), padded)
    ensured(mirror, padded)
    with pytest.raises(SourceIntegrityError, match="git rejected an object") as caught:
        ensured(mirror, dangerous)
    assert "hasDotgit" in caught.value.why


def test_a_mirror_of_another_owner_is_used_and_a_source_of_another_owner_is_explained(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": "1\n"})
    plain = store_in(tmp_path)
    other_owner = plain.git.env | {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}  # git's own switch for its tests
    store = replace(plain, git=Git(plain.git.program, other_owner))
    mirror = store.mirror(server.url(upstream.path.name), commit)
    ensured(mirror, commit)
    mirror.deliver(commit, Upstream.make(tmp_path / "into.git").path, report=lambda _: None)
    error = refusal(store.mirror(str(upstream.path), commit), commit)
    assert error.evidence["reason"] == "owner"
    assert error.commands == (f"git config --global --add safe.directory '{upstream.path}'",)


_ON_A_FULL_DISK = """
    import sys
    from pathlib import Path
    from xpubuild.engine.environment import base_environment
    from xpubuild.errors import NoSpaceError
    from xpubuild.supply.git.git import Git
    from xpubuild.supply.git.bare import RepositoryStore
    store = RepositoryStore(Path(sys.argv[1]), Git.open(base_environment()))
    mirror = store.mirror(sys.argv[2], sys.argv[3])
    try:
        mirror.ensure(sys.argv[3], report=print)
    except NoSpaceError as error:
        print(error.what, "|", error.why)
        print("left:", sorted(path.name for path in mirror.path.glob("objects/pack/tmp*")))
        sys.exit(error.exit_code)
"""


def test_a_full_disk_has_its_own_exit_code_and_leaves_no_half_pack(
    tmp_path: Path, upstream: Upstream, server: GitServer
) -> None:
    commit = upstream.commit({"a": noise(1, 3_000_000)})
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
