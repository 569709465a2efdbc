"""Durable file operations and the words for what the system refuses."""

from __future__ import annotations

import errno
import os
import shlex
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from xpubuild.engine import files
from xpubuild.errors import NoSpaceError, ToolchainError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "w\u00f6rk space 'x'"
    made.mkdir()
    return made


def test_write_changed_leaves_a_file_with_this_content_alone(folder: Path) -> None:
    target, linked = folder / "plan.json", folder / "linked.json"
    files.write_changed(target, b"one")
    first = target.stat()
    files.write_changed(target, b"one")
    assert target.stat() == first
    target.chmod(0o600)
    files.write_changed(target, b"two")
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (b"two", 0o644)
    linked.symlink_to(target)
    files.write_changed(linked, b"two")
    assert not linked.is_symlink()
    assert linked.read_bytes() == b"two"


def test_write_atomic_flushes_file_and_folder_before_it_returns(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    real_fsync, real_replace = os.fsync, Path.replace

    def fsync(fd: int) -> None:
        done.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "file")
        real_fsync(fd)

    def replace(self: Path, target: Path) -> Path:
        done.append("rename")
        return real_replace(self, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "replace", replace)
    files.write_atomic(folder / "a", b"x")
    assert done == ["file", "rename", "folder"]
    done.clear()
    (folder / "b").write_bytes(b"y")
    files.publish_file(folder / "b", folder / "wheels")
    assert done == ["file", "rename", "folder"]
    done.clear()
    files.copy_durable(folder / "a", folder / "copies")
    assert done == ["file", "rename", "folder"]


def test_a_failed_write_leaves_the_old_content_and_no_part(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = folder / "a"
    files.write_atomic(target, b"old")

    def fail(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(NoSpaceError) as caught:
        files.write_atomic(target, b"new")
    assert target.read_bytes() == b"old"
    assert [entry.name for entry in folder.iterdir()] == ["a"]
    assert caught.value.commands == (f"df -h {shlex.quote(str(folder))}",)
    assert shlex.split(caught.value.commands[0]) == ["df", "-h", str(folder)]


@pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG])
def test_a_refusal_is_explained(number: int, folder: Path) -> None:
    with pytest.raises(ToolchainError) as caught, files.explained(folder, "trying"):
        raise OSError(number, os.strerror(number))
    assert str(folder) in caught.value.what
    assert os.strerror(number) in caught.value.why
    assert "--workspace" in caught.value.fix


def test_what_is_not_the_users_doing_stays_what_it_is(folder: Path) -> None:
    with pytest.raises(OSError, match="Bad file descriptor"), files.explained(folder, "trying"):
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def blocked_by_a_file(folder: Path) -> None:
    (folder / "file").write_text("x")
    files.write_atomic(folder / "file" / "a", b"")


def blocked_by_a_folder(folder: Path) -> None:
    (folder / "a").mkdir()
    files.write_atomic(folder / "a", b"")


@pytest.mark.parametrize("act", [blocked_by_a_file, blocked_by_a_folder])
def test_something_in_the_way_is_an_error_with_words(act: Callable[[Path], None], folder: Path) -> None:
    with pytest.raises(ToolchainError) as caught:
        act(folder)
    assert caught.value.why
    assert not [path for path in folder.rglob(".*") if path.name.startswith(".")], "a part was left"


def test_remove_tree_does_not_follow_links(folder: Path) -> None:
    precious = folder / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("years")
    doomed = folder / "doomed"
    doomed.mkdir()
    (doomed / "inner").symlink_to(precious)
    (doomed / "file link").symlink_to(precious / "thesis.txt")
    (folder / "outer").symlink_to(precious, target_is_directory=True)
    (folder / "dangling").symlink_to("nowhere")
    for name in ("doomed", "outer", "dangling"):
        files.remove_tree(folder / name)
        assert not os.path.lexists(folder / name)
    assert (precious / "thesis.txt").read_text() == "years"
