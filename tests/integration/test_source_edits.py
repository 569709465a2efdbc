"""Whatever the user did in a checkout survives, is named, and the way out is typed for him."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from integration.gitserver import Nested, git, snapshot

from xpubuild.engine.environment import base_environment
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.checkout import checkout
from xpubuild.supply.git.edits import EDITABLE, WHEEL, Edit, Shadows, refuse
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.integrity import (
    BuiltTreeProof,
    TreeProof,
    begin_build,
    verify_checkout,
)
from xpubuild.supply.git.own_tree import own_tree
from xpubuild.supply.git.pin import Pin
from xpubuild.supply.git.submodules import TreeEntry
from xpubuild.supply.git.worktree import Repository

_MID = "third_party/mid"
_INNER = "third_party/mid/deps/inner"


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory) -> Nested:
    return Nested.make(tmp_path_factory.mktemp("srv"))


@pytest.fixture(scope="module")
def made(nested: Nested, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made once ü")
    _checkout(nested, nested.first, root / "top", root / "cache")
    return root


@pytest.fixture
def into(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "ws ü", symlinks=True)
    return tmp_path / "ws ü" / "top"


def _pin(nested: Nested, commit: str) -> Pin:
    return Pin(nested.top.path.as_uri(), commit)


def _checkout(nested: Nested, commit: str, into: Path, cache: Path | None = None) -> str:
    cache = cache or into.parent / "cache"
    pin = _pin(nested, commit)
    return checkout(pin, into, cache=cache, jobs=2, env=base_environment(), report=lambda _: None).action


@contextlib.contextmanager
def building(nested: Nested, into: Path, *besides: str) -> Iterator[None]:
    """Do in a checkout of the first commit what a build does."""
    pin = _pin(nested, nested.first)
    begin_build(into, pin, WHEEL, besides)
    yield
    assert BuiltTreeProof(str(into), pin).check()["tree_proved_bare"]


def _edits(nested: Nested, commit: str, into: Path) -> list[list[str]]:
    try:
        verify_checkout(into, _pin(nested, commit))
    except SourceIntegrityError as error:
        found: list[list[str]] = error.evidence["edits"]
        return found
    return []


def _commit_in(folder: Path) -> None:
    (folder / "mine.txt").write_text("mine\n")
    git("add", "mine.txt", cwd=folder)
    git("commit", "--quiet", "-m", "mine", cwd=folder)


def _stage(into: Path) -> None:
    (into / "run.sh").write_text("#!/bin/sh\nexit 1\n")
    git("add", "run.sh", cwd=into)
    (into / "run.sh").write_text("#!/bin/sh\n")  # the work tree is clean again, the index is not


def _hide(into: Path, how: str) -> None:
    git("update-index", how, "run.sh", cwd=into)
    (into / "run.sh").write_text("#!/bin/sh\nexit 1\n")


_EDITS: dict[str, tuple[Callable[[Path], object], str]] = {
    "modified": (lambda top: (top / "grüße.txt").write_text("mine\n"), "grüße.txt"),
    "mode": (lambda top: (top / "run.sh").chmod(0o644), "run.sh"),
    "deleted": (lambda top: (top / "run.sh").unlink(), "run.sh"),
    "staged only": (_stage, "run.sh"),
    "link": (lambda top: ((top / "link").unlink(), (top / "link").symlink_to("/etc/passwd")), "link"),
    "untracked": (lambda top: (top / "mine.txt").write_text("mine\n"), "mine.txt"),
    "untracked folder": (lambda top: ((top / "mine").mkdir(), (top / "mine/a").write_text("1")), "mine/a"),
    "in a submodule": (lambda top: (top / _MID / "mid.c").write_text("mine\n"), f"{_MID}/mid.c"),
    "new in a nested one": (lambda top: (top / _INNER / "mine").write_text("1"), f"{_INNER}/mine"),
    "commit": (_commit_in, "."),
    "commit in a submodule": (lambda top: _commit_in(top / _MID), _MID),
    "staged commit of a submodule": (lambda top: (_commit_in(top / _MID), git("add", _MID, cwd=top)), _MID),
    "commit on a branch": (lambda top: (git("switch", "-c", "b", cwd=top), _commit_in(top)), "."),
    "assume-unchanged": (lambda top: _hide(top, "--assume-unchanged"), "run.sh"),
    "skip-worktree": (lambda top: _hide(top, "--skip-worktree"), "run.sh"),
    "submodule without .git": (lambda top: (top / _INNER / ".git").unlink(), _INNER),
    "removed submodule": (lambda top: git("rm", "-q", "-f", _MID, cwd=top), _MID),
}


@pytest.mark.parametrize("edit", list(_EDITS))
def test_an_edit_is_named_and_kept(nested: Nested, into: Path, edit: str) -> None:
    do, place = _EDITS[edit]
    do(into)
    before = snapshot(into)
    heads = [git("rev-parse", "HEAD", cwd=into)]
    for commit in (nested.second, nested.first):
        with pytest.raises(SourceIntegrityError) as caught:
            _checkout(nested, commit, into)
        assert snapshot(into) == before
    assert [git("rev-parse", "HEAD", cwd=into)] == heads
    error = caught.value
    assert error.exit_code == 31
    assert place in [path for path, _ in error.evidence["edits"]]
    assert f"{place} (" in error.why
    assert any(command.startswith("mv ") for command in error.commands)
    with pytest.raises(SourceIntegrityError):
        verify_checkout(into, _pin(nested, nested.first))
    with pytest.raises(SourceIntegrityError):
        TreeProof(str(into), _pin(nested, nested.first)).check()


@pytest.mark.parametrize("edit", ["modified", "new in a nested one"])
def test_the_command_that_is_offered_works(nested: Nested, into: Path, edit: str) -> None:
    _EDITS[edit][0](into)
    with pytest.raises(SourceIntegrityError) as caught:
        _checkout(nested, nested.second, into)
    stash = next(command for command in caught.value.commands if " stash push" in command)
    git("config", "--global", "user.email", "t@example.com", cwd=into, env={"HOME": str(into.parent)})
    git("config", "--global", "user.name", "T", cwd=into, env={"HOME": str(into.parent)})
    env = {"HOME": str(into.parent), "PATH": base_environment()["PATH"]}
    subprocess.run(["sh", "-c", stash], env=env, check=True, capture_output=True)
    assert _checkout(nested, nested.second, into) == "moved"


def test_what_builds_have_made_is_never_stashed_as_a_whole(tmp_path: Path) -> None:
    """A repository at another commit is an edit with the place of the repository."""
    edits = [Edit(".", f"at commit {'a' * 40}", ""), Edit("x.log", "ignored", "")]
    with pytest.raises(SourceIntegrityError) as caught:
        refuse(tmp_path / "src", edits, "b" * 40)
    assert [command for command in caught.value.commands if " stash push" in command] == [
        f"git -C {tmp_path / 'src'} stash push --all -- x.log"
    ]


def test_a_file_of_a_build_that_the_pin_would_overwrite_is_named_and_kept(nested: Nested, into: Path) -> None:
    with building(nested, into, "new"):
        (into / "new").mkdir()
        (into / "new" / "deep").write_text("mine, and a file where the pin has a folder\n")
    with pytest.raises(SourceIntegrityError) as caught:
        _checkout(nested, nested.second, into)
    assert ["new/deep", "untracked"] in caught.value.evidence["edits"]
    assert (into / "new" / "deep").read_text().startswith("mine")
    assert not list((into / ".git").glob("xpubuild-move*"))
    (into / "new" / "deep").unlink()
    assert _checkout(nested, nested.second, into) == "moved"


def test_ignored_files_of_a_build_do_not_hinder(nested: Nested, into: Path) -> None:
    with building(nested, into):
        (into / "build").mkdir()
        (into / "build" / "x").write_text("1")
        (into / "a.o").write_text("1")
    assert _checkout(nested, nested.first, into) == "unchanged"
    assert _checkout(nested, nested.second, into) == "moved"
    assert (into / "build" / "x").exists()


def test_what_belongs_to_another_part_of_the_build_is_left_out(nested: Nested, into: Path) -> None:
    place = into / "generated" / "torch-xpu-ops"
    pin = _pin(nested, nested.first)
    with building(nested, into, "generated/torch-xpu-ops"):
        place.mkdir(parents=True)
        git("init", "--quiet", cwd=place)
        (place / "x").write_text("1")
        git("add", "x", cwd=place)
        git("commit", "--quiet", "-m", "x", cwd=place)
    assert verify_checkout(into, pin)["commit"] == nested.first
    assert TreeProof(str(into), pin).check()["commit"] == nested.first
    assert _checkout(nested, nested.second, into) == "moved"
    assert (place / "x").read_text() == "1"
    (into / "generated" / "mine").write_text("1")
    assert _edits(nested, nested.second, into) == [["generated/mine", "untracked"]]
    (into / "generated" / "mine").unlink()
    (place / "x").write_text("2")
    assert _edits(nested, nested.second, into) == [["generated/torch-xpu-ops/x", "modified"]]
    git("commit", "--quiet", "-am", "y", cwd=place)
    head = git("rev-parse", "HEAD", cwd=place)
    assert _edits(nested, nested.second, into) == [[f"generated/torch-xpu-ops/@{head}", "checked out"]]


@pytest.mark.parametrize("where", [".", _INNER])
@pytest.mark.parametrize("how", ["exclude", "excludesFile", "its own .gitignore"])
def test_no_ignore_rule_hides_a_file_that_no_build_made(
    nested: Nested, into: Path, where: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "answer.o" if how == "its own .gitignore" and where == "." else "answer.h"
    rules = into.parent / "ignore"
    rules.write_text("answer.h\n")
    if how == "exclude":
        git_dir = Path(git("rev-parse", "--absolute-git-dir", cwd=into / where))
        (git_dir / "info").mkdir(exist_ok=True)
        (git_dir / "info" / "exclude").write_text("answer.h\n")
    elif how == "excludesFile":
        git("config", "core.excludesFile", str(rules), cwd=into / where)
        monkeypatch.setenv("XDG_CONFIG_HOME", str(into.parent))
    (into / where / name).write_text("#define ANSWER 666\n")
    kind = "ignored" if name == "answer.o" else "untracked"
    place = name if where == "." else f"{where}/{name}"
    assert _edits(nested, nested.first, into) == [[place, kind]]
    with pytest.raises(SourceIntegrityError), building(nested, into):
        pytest.fail("the build must not begin")
    assert own_tree(into, git=Git.open()) is not None
    assert (into / where / name).exists()


def test_a_build_that_was_killed_leaves_what_the_pin_ignores_and_no_more(nested: Nested, into: Path) -> None:
    begin_build(into, _pin(nested, nested.first), WHEEL)
    (into / "a.o").write_text("1")
    assert _edits(nested, nested.first, into) == []
    (into / "answer.h").write_text("1")
    assert _edits(nested, nested.first, into) == [["answer.h", "untracked"]]
    (into / "answer.h").unlink()
    with building(nested, into):
        pass
    assert _edits(nested, nested.first, into) == []
    (into / "b.o").write_text("1")
    assert _edits(nested, nested.first, into) == [["b.o", "ignored"]]


def test_a_build_must_not_make_a_file_that_hides_a_pinned_one(nested: Nested, into: Path) -> None:
    (pinned,) = (into / _INNER).glob("*.h")
    for text, hides in ((pinned.read_bytes(), False), (b"#define ANSWER 666\n", True)):
        begin_build(into, _pin(nested, nested.first), WHEEL, [pinned.name])
        (into / pinned.name).write_bytes(text)
        found = _edits(nested, nested.first, into)
        expected = [[pinned.name, f"untracked, hides {_INNER}/{pinned.name}"]] if hides else []
        assert found == expected
        (into / pinned.name).unlink()


@pytest.mark.parametrize(("pinned", "hides"), [("aten/templates/Ir.h", False), ("aten/src/Ir.h", True)])
def test_a_header_made_of_a_template_in_another_folder_hides_nothing(
    tmp_path: Path, pinned: str, hides: bool
) -> None:
    """torch/csrc/lazy/generated/LazyIr.h has its template in another folder."""
    entries = tuple(TreeEntry("100644", "0" * 40, path) for path in (pinned, "lazy/generated/README.md"))
    tree = Repository("", tmp_path, tmp_path / ".git", None, (), entries)
    assert Shadows([tree]).of(tmp_path, "lazy/generated/Ir.h") == (pinned if hides else "")


def test_the_tree_of_an_editable_install_is_in_use_until_a_wheel_is_built_of_it(
    nested: Nested, into: Path
) -> None:
    pin = _pin(nested, nested.first)
    begin_build(into, pin, EDITABLE)
    (into / "a.o").write_text("1")
    assert _edits(nested, nested.first, into) == []
    begin_build(into, pin, EDITABLE)
    with pytest.raises(SourceIntegrityError):
        begin_build(into, pin, WHEEL)
    (into / "a.o").unlink()
    begin_build(into, pin, WHEEL)


def test_a_commit_that_the_pin_contains_is_no_edit(nested: Nested, into: Path) -> None:
    shutil.rmtree(into)
    allow = ("-c", "protocol.file.allow=always")
    git(*allow, "clone", "--quiet", "--recursive", nested.top.path.as_uri(), str(into), cwd=into.parent)
    git("checkout", "--quiet", nested.first, cwd=into)
    git(*allow, "submodule", "--quiet", "update", "--init", "--recursive", cwd=into)
    for left in ("extra", f"{_MID}/deps/other"):  # plain git leaves what the older commit does not have
        shutil.rmtree(into / left)
    assert _checkout(nested, nested.second, into) == "moved"


def test_the_digest_of_edits_names_them_and_nothing_else(nested: Nested, into: Path) -> None:
    assert own_tree(into, git=Git.open()) is None
    with building(nested, into):
        (into / "a.o").write_text("ignored")
    assert own_tree(into, git=Git.open()) is None
    seen: set[str] = set()
    file = into / "grüße.txt"
    for do in (
        lambda: file.write_text("mine 1\n"),
        lambda: file.write_text("mine 2\n"),
        lambda: file.chmod(0o755),
        lambda: (into / "mine").write_text("1"),
        lambda: (into / _INNER / "inner.h").write_text("mine"),
        lambda: _commit_in(into / _MID),
        file.unlink,
        lambda: _hide(into, "--assume-unchanged"),
    ):
        do()
        found = own_tree(into, git=Git.open())
        assert found == own_tree(into, git=Git.open())
        assert found is not None
        assert found.digest not in seen
        seen.add(found.digest)
