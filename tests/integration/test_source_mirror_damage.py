"""Mirrors that are damaged, cut off, shared or out of space."""

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


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream.make(tmp_path / "srv" / "ein Projekt.git")


@pytest.fixture
def server(upstream: Upstream) -> Iterator[GitServer]:
    with git_server(upstream.path.parent) as running:
        yield running


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
    store = replace(plain, git=plain.git.with_env(other_owner))
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
