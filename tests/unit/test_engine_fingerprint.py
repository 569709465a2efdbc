"""Fingerprints: the same for the same thing however it is written down, another for any other thing."""

from __future__ import annotations

import dataclasses
import errno
import os
import shlex
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pytest

from xpubuild.engine import files
from xpubuild.engine.fingerprint import canonical_json, fingerprints
from xpubuild.engine.model import Command, Publish, Step, Watcher
from xpubuild.errors import NoSpaceError, ToolchainError


def test_the_canonical_form_is_fixed() -> None:
    """Journals on people's disks hold these; a change needs a new FORMAT."""
    assert canonical_json({"b": [1, 2.5, None, True], "a": "\u00fc \u6f22"}) == (
        '{"a":"\\u00fc \\u6f22","b":[1,2.5,null,true]}'
    )


@dataclass(frozen=True)
class KeyProof:
    value: str

    def describe(self) -> str:
        return "nothing"

    def key(self) -> dict[str, Any]:
        return {"proof": "key", "value": self.value}

    def check(self) -> dict[str, Any]:
        return {}


def chain() -> list[Step]:
    """Return a, and b and c that need it, and d that needs both; e stands alone."""
    command = Command(
        argv=("make", "all"),
        env={"CC": "gcc", "CXX": "g++"},
        cwd="/src",
        path_prefix=("/opt/bin",),
        alternatives=(("make", "some"),),
    )
    a = Step(
        id="a",
        title="first",
        commands=(command, Command(("true",))),
        proofs=(KeyProof("one"),),
        relevant={"pin": "abc"},
        publish=Publish("/stage", "/wheels", "*.whl"),
    )
    b = Step(id="b", title="second", needs=("a",), commands=(Command(("b",)),))
    c = Step(id="c", title="third", needs=("a",))
    d = Step(id="d", title="fourth", needs=("b", "c"))
    return [a, b, c, d, Step(id="e", title="alone", commands=(command,))]


def with_command(step: Step, **changes: Any) -> Step:
    return replace(step, commands=(replace(step.commands[0], **changes), *step.commands[1:]))


CHANGES: dict[str, Callable[[Step], Step]] = {
    "argv": lambda s: with_command(s, argv=("make", "all", "-k")),
    "argv-split": lambda s: with_command(s, argv=("make all",)),
    "env-value": lambda s: with_command(s, env={"CC": "clang", "CXX": "g++"}),
    "env-more": lambda s: with_command(s, env={"CC": "gcc", "CXX": "g++", "CFLAGS": ""}),
    "env-less": lambda s: with_command(s, env={"CC": "gcc"}),
    "cwd": lambda s: with_command(s, cwd="/src2"),
    "no-cwd": lambda s: with_command(s, cwd=None),
    "path": lambda s: with_command(s, path_prefix=("/opt2/bin",)),
    "alternatives": lambda s: with_command(s, alternatives=()),
    "command-more": lambda s: replace(s, commands=(*s.commands, Command(("true",)))),
    "command-less": lambda s: replace(s, commands=s.commands[:1]),
    "command-order": lambda s: replace(s, commands=s.commands[::-1]),
    "proof": lambda s: replace(s, proofs=(KeyProof("two"),)),
    "no-proof": lambda s: replace(s, proofs=()),
    "relevant": lambda s: replace(s, relevant={"pin": "abd"}),
    "publish": lambda s: replace(s, publish=Publish("/stage", "/wheels", "*")),
    "no-publish": lambda s: replace(s, publish=None),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_change_reaches_the_step_and_all_that_need_it(change: Callable[[Step], Step]) -> None:
    steps = chain()
    before = fingerprints(steps)
    after = fingerprints([change(steps[0]), *steps[1:]])
    assert {name for name in before if before[name] != after[name]} == {"a", "b", "c", "d"}


SAME: dict[str, Callable[[Step], Step]] = {
    "title": lambda s: replace(s, title="another title"),
    "tuning": lambda s: with_command(s, tuning={"MAX_JOBS": "64"}),
    "deadline": lambda s: with_command(s, deadline_s=5.0),
    "portable": lambda s: with_command(s, portable=("make all",)),
    "shortcut": lambda s: with_command(s, shortcut=("make", "quickly")),
    "memory": lambda s: replace(s, memory_bytes=1 << 40),
    "outputs": lambda s: replace(s, outputs=("/x",), inputs=("/y",), witnesses=("/z",)),
    "env-order": lambda s: with_command(s, env={"CXX": "g++", "CC": "gcc"}),
    "explain": lambda s: replace(s, explain=lambda _lines: None),
    "watch": lambda s: replace(s, watch=lambda: cast(Watcher, object())),
    "after": lambda s: replace(s, after=("another",)),
    "tools": lambda s: replace(s, tools=("another",)),
}


@pytest.mark.parametrize("change", SAME.values(), ids=SAME.keys())
def test_what_changes_nothing_that_is_made_is_left_out(change: Callable[[Step], Step]) -> None:
    steps = chain()
    assert fingerprints([change(steps[0]), *steps[1:]]) == fingerprints(steps)


def test_every_field_of_a_command_and_a_step_was_thought_of() -> None:
    """A new field must be put into the fingerprint, or into the list of what is left out on purpose."""
    hashed_of_command = {"argv", "env", "cwd", "path_prefix", "alternatives"}
    left_out_of_command = {"tuning", "portable", "deadline_s", "shortcut"}
    assert {f.name for f in dataclasses.fields(Command)} == hashed_of_command | left_out_of_command
    assert Command(("x",)).key().keys() == hashed_of_command
    hashed_of_step = {"id", "commands", "proofs", "relevant", "publish", "needs"}
    left_out_of_step = {
        "title", "inputs", "outputs", "witnesses", "witness_globs", "outputs_stamp", "guard_stamp", "fresh",
        "stale", "memory_bytes", "always_prove",
        "explain", "watch", "after", "tools", "keeper",
    }  # fmt: skip
    assert {f.name for f in dataclasses.fields(Step)} == hashed_of_step | left_out_of_step


# ---- Durable file operations and the words for what the system refuses


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
