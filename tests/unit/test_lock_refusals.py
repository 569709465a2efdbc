"""What cannot be locked, and what a lock was not made for: refused with every part of an error."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError
from support.locks import example, oid

from xpubuild.errors import UsageError, XpuBuildError
from xpubuild.install import lock, open_wheels
from xpubuild.install import lock_check as check
from xpubuild.install import lock_model as model
from xpubuild.install import locked_options as options
from xpubuild.install import locked_sources as sources
from xpubuild.install.open_wheels import in_depot, open_hashes
from xpubuild.install.planner import OpenWheel, Repository
from xpubuild.recipe.upstream import Tree
from xpubuild.supply.git.configure_time import ConfigurePin
from xpubuild.supply.git.pin import Pin

LOCK = example()


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


def invalid(*_: object, **__: object) -> Any:
    model.Wheel.model_validate({"component": "x", "dist": "x", "version": "x", "hashes": ["md5"]})
    raise AssertionError


def prepared(**facts: Any) -> Any:
    recipe = SimpleNamespace(name="mine", components={})
    given = {"dirty": {}, "conda_lock": None, **facts}
    return SimpleNamespace(target=SimpleNamespace(recipe=recipe, **given))


def test_facts_that_a_lock_has_no_form_for(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValidationError):
        invalid()
    nothing = SimpleNamespace(archives=(), repositories=(), embedded=())
    for module in (lock, options):
        monkeypatch.setattr(module, "inputs_of", lambda _: nothing)
        monkeypatch.setattr(module, "offline_part", invalid)
    monkeypatch.setattr(lock, "locked_archives", lambda *_: ())
    refuses(lambda: lock.make_lock(prepared(), store=None, report=print))  # type: ignore[arg-type]
    refuses(lambda: options.require_match(LOCK, prepared()))
    dirty = prepared(dirty={"torch": "1", "ops": "2"})
    refuses(lambda: lock.make_lock(dirty, store=None, report=print))  # type: ignore[arg-type]


@pytest.mark.parametrize("why", ["", "it is not there"])
def test_a_recipe_that_cannot_be_planned_as_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    kept: list[Any] = []

    def prepare(*_: object, **__: object) -> Any:
        raise UsageError("'small' is no variant", why=why)

    monkeypatch.setattr(check, "prepare", prepare)
    monkeypatch.setattr(
        check, "load", lambda name: SimpleNamespace(recipe=SimpleNamespace(components={}, name=name))
    )
    monkeypatch.setattr(check, "keep_resolved", lambda *words: kept.append(words))
    for given in (None, "/a/file.yaml"):
        asked = SimpleNamespace(workspace=tmp_path, recipe=given)
        refuses(lambda asked=asked: check._prepared(LOCK, asked, None))  # type: ignore[arg-type, misc]
    assert [words[1] for words in kept] == [{}, {}]


def test_sources_that_are_not_those_of_the_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    made = SimpleNamespace(commit=oid(1), tree=oid(2), root_url="https://x/ops")
    monkeypatch.setattr(sources, "materialise", lambda *_, **__: made)
    monkeypatch.setattr(sources, "_embedded_below", lambda *_: [])
    monkeypatch.setattr(sources.Git, "open", lambda *_: None)
    context = SimpleNamespace(component=lambda _: SimpleNamespace(source=SimpleNamespace(embedded="ops")))
    item = Repository("ops", Pin(url="/embedded", commit=oid(3)))
    refuses(lambda: sources.embedded_repository(item, context))  # type: ignore[arg-type]
    right = Repository("ops", Pin(url="/embedded", commit=oid(1), ref="v1"))
    assert sources.embedded_repository(right, context).model_dump() == {  # type: ignore[arg-type]
        "url": None, "embedded": "ops", "ref": "v1", "commit": oid(1), "tree": oid(2), "submodules": (),
        "configure_time": (),
    }  # fmt: skip
    assert sources.embedded_url("/tmp/x/ops.git") == "embedded://ops"


def test_a_tree_that_git_cannot_read() -> None:
    asked: list[Any] = []

    def query(words: list[str], *, git_dir: Path) -> Any:
        asked.append((words, git_dir))
        return SimpleNamespace(ok=False, stderr=" fatal: damaged \n", text="")

    refuses(lambda: sources._tree_id(SimpleNamespace(query=query), Path("/g"), oid(1)))  # type: ignore[arg-type]
    assert asked == [(["rev-parse", "--verify", f"{oid(1)}^{{tree}}"], Path("/g"))]


@pytest.mark.parametrize("note", ["", "upstream's https://me:word@h/x names none"])
def test_a_repository_of_configure_time_without_a_commit(note: str) -> None:
    found = ConfigurePin("https://me:word@h/x", None, None, "third_party/x", note)
    refuses(lambda: sources._configure_time("torch", found, None, print, 1))  # type: ignore[arg-type]


WHEEL = OpenWheel("triton", "Triton.XPU", "3.4", ("https://i",))


def entry(**more: str) -> Any:
    return SimpleNamespace(
        **{"kind": "wheel", "dist": "triton-xpu", "version": "3.4.0+xpu", "sha256": "1", **more}
    )


def test_hashes_of_a_wheel_that_a_mirror_has() -> None:
    entries = [
        entry(), entry(version="3.4.1", sha256="2"), entry(dist="other", sha256="3"), entry(kind="sdist",
        sha256="4"),
        entry(version="3.4", sha256="5"),
    ]  # fmt: skip
    mirror = SimpleNamespace(files=lambda: entries)
    assert list(in_depot(mirror, WHEEL)) == ["1", "5"]  # type: ignore[arg-type]
    assert list(in_depot(None, WHEEL)) == []


@pytest.mark.parametrize(("offline", "known"), [(True, []), (False, ["sha256:a"]), (False, [])])
def test_hashes_of_wheels_that_are_left_open(
    monkeypatch: pytest.MonkeyPatch, offline: bool, known: list[str]
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(open_wheels, "_of_indexes", lambda wheel, *_: asked.append(wheel) or known)
    monkeypatch.setattr(open_wheels, "inputs_of", lambda _: SimpleNamespace(wheels=(WHEEL,)))
    target: Any = SimpleNamespace(downloads=SimpleNamespace(mirror=None, offline=offline))
    said: list[str] = []
    found = open_hashes(target, report=said.append, cancel=None)  # type: ignore[arg-type]
    assert found == ({"triton": known} if known else {})
    assert said == ([] if known else ["no hash of Triton.XPU 3.4 was found; the lock leaves it open"])
    assert asked == ([] if offline else [WHEEL])


def test_files_of_a_commit_are_read_from_a_repository() -> None:
    asked: list[Any] = []
    answers = {"-s": ("6", True), "blob": (" word more", True)}

    def query(words: list[str], *, git_dir: Path) -> Any:
        asked.append((words, git_dir))
        text, ok = answers[words[1]]
        return SimpleNamespace(ok=ok, text=text)

    def ensure(commit: str, *, ref: str | None, report: Any) -> None:
        report("a line")
        asked.append((commit, ref))

    mirror = SimpleNamespace(path=Path("/g"), ensure=ensure)
    store: Any = SimpleNamespace(git=SimpleNamespace(query=query), mirror=lambda url, commit: mirror)
    tree = Tree.fetched(store, "/x", "v1", oid(1))
    assert Tree.fetched(store, "/x", None, oid(1)) == tree
    assert asked == [(oid(1), "refs/tags/v1"), (oid(1), None)]
    assert tree.word("a", "b") == ("a", "word")
    assert asked[2:] == [(["cat-file", kind, f"{oid(1)}:a"], Path("/g")) for kind in ("-s", "blob")]
    answers["blob"] = ("", True)
    assert tree.word("a", "b") is None
    for kind, answer in (("blob", ("x", False)), ("-s", ("6", False)), ("-s", (str((1 << 20) + 1), True))):
        answers.update({"-s": ("6", True), "blob": ("x", True)})
        answers[kind] = answer
        assert tree.text("a") is None
    answers.update({"-s": (str(1 << 20), True), "blob": ("x", True)})
    assert tree.text("a") == "x"
