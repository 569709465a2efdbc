"""Copying between stores and what stores know of a plan, without a build: rows, errors, identities."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.plan_files import target_for
from unit.test_store_folder import DIST, FILE, ME, record_of

from xpubuild.engine.environment import base_environment
from xpubuild.engine.journal import Journal
from xpubuild.errors import FetchError, ToolchainError, XpuBuildError
from xpubuild.install import kept, store_work
from xpubuild.install.kept import places_of, unanswered, with_stores
from xpubuild.install.planner import make_plan
from xpubuild.install.store_uses import Uses, used_by, uses_of
from xpubuild.install.store_work import Copies, folder_stores, pull, push, require_believed, require_there
from xpubuild.install.stores import Stores, opened
from xpubuild.install.target import OneapiFacts, Prepared
from xpubuild.supply.depot.collect import Used
from xpubuild.supply.depot.keeping import NotKept, WheelKeeper
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Location, Trust
from xpubuild.supply.depot.machine import Toolchain
from xpubuild.supply.depot.wheel_server import ServedStore

TRUST = Trust(frozenset(), ME)
SERVER = Location("https", "host.example", "/store")


def store(path: Path, **more: Any) -> FolderStore:
    return FolderStore(path, TRUST, **more)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStore:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return store(tmp_path / "cache" / "xpubuild", own=True)


def test_rows_say_what_was_copied_and_the_error_counts_them(tmp_path: Path) -> None:
    target, copies = store(tmp_path), Copies()
    assert copies.failure() is None
    copies.add("a", "a.whl", target)
    copies.add("b", "b.whl", target, "it has another one")
    assert copies.failure() is None
    first = FetchError("what", why="why", fix="fix", commands=("one",), evidence={"a": 1})
    copies.add("c", "", target, first)
    copies.add("d", "", target, ToolchainError("else"))
    assert [(row["name"], row["kept"], row["why"]) for row in copies.rows] == [
        ("a", True, ""), ("b", False, "it has another one"), ("c", False, "what (why)"), ("d", False, "else"),
    ]  # fmt: skip
    assert copies.rows[0] == {"name": "a", "file": "a.whl", "store": str(tmp_path), "kept": True, "why": ""}
    failure = copies.failure()
    assert failure is not None
    assert (type(failure), failure.to_json()) == (
        FetchError, {**first.to_json(), "what": "2 of 4 wheels were not copied", "why": "what (why)"},
    )  # fmt: skip
    copies.failed = copies.failed[1:]
    failure = copies.failure()
    assert failure is not None
    assert (failure.what, failure.why) == ("1 of 4 wheels were not copied", "else")


def test_stores_that_cannot_be_used(
    home: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert folder_stores((tmp_path,)) == [replace(home, trust=folder_stores(())[0].trust), store(tmp_path)]
    for wrong in (
        lambda: folder_stores((SERVER,)), lambda: push((), None), lambda: push((SERVER,), None),
        lambda: require_there([store(tmp_path / "none")]), lambda: require_believed(store(tmp_path / "none")),
    ):  # fmt: skip
        with pytest.raises(XpuBuildError):
            wrong()
    require_there([store(tmp_path)])
    require_believed(store(tmp_path))
    for answer in ("somebody else owns it", OSError(5, "Input/output error")):

        def why_not(_: object, answer: Any = answer) -> str:
            if isinstance(answer, OSError):
                raise answer
            return str(answer)

        monkeypatch.setattr(FolderStore, "why_not", why_not)
        with pytest.raises(XpuBuildError):
            require_believed(store(tmp_path))
    assert opened(SERVER, TRUST, offline=True) is None
    assert isinstance(opened(SERVER, TRUST), ServedStore)
    assert opened(tmp_path, TRUST, offline=True) == store(tmp_path)


def test_a_wheel_that_cannot_be_copied_is_a_row(home: FolderStore, tmp_path: Path) -> None:
    copies, record = Copies(), record_of(b"wheel", a=1)
    source: Any = SimpleNamespace(bring=lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    store_work._copy(copies, source, record, home)
    source.bring = lambda *_: (_ for _ in ()).throw(OSError("no number"))
    store_work._copy(copies, source, record, home)
    assert [row["why"] for row in copies.rows] == [
        f"{FILE} cannot be copied (Input/output error)", f"{FILE} cannot be copied (no number)",
    ]  # fmt: skip
    assert {(row["name"], row["file"]) for row in copies.rows} == {(DIST, FILE)}


def prepared(root: Path, every: tuple[Any, ...] = (), **asked: Any) -> Prepared:
    facts = {"host": {"os": {"id": "x"}, "cpu": {}, "disk": {}}, "stores": Stores(every)}
    target = target_for("quickstart", workspace=str(root), facts=facts, **asked)
    return Prepared(target, make_plan(target), 1.0)


@pytest.mark.parametrize("asked", [{"editable": True}, {"allow_dirty": True}, {}])
def test_builds_that_no_store_has(
    home: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    def fails(*_: object) -> None:
        raise ToolchainError("the compiler says nothing")

    monkeypatch.setattr(kept, "machine_inputs", fails)
    given = prepared(tmp_path / "ws", (home,), **asked)
    keepers = {step.id: step.keeper for step in with_stores(given, ()).plan.steps if step.keeper is not None}
    why = (
        "a build with edits is not kept (--editable, --allow-dirty)" if asked else "the compiler says nothing"
    )
    expected = {} if asked.get("editable") else {"ops.wheel": NotKept(why)}
    assert keepers == expected
    assert with_stores(given, ("ops.wheel",)) is given
    assert with_stores(replace(given, target=replace(given.target, stores=Stores())), ()).plan is given.plan
    rows = pull(given).rows
    assert rows == [
        {
            "name": name,
            "file": "",
            "store": str(home.root),
            "kept": False,
            "why": f"no store can have it ({why})",
        }
        for name in expected
    ]


def test_the_identity_of_a_build_is_looked_up_in_every_store(
    home: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept, "machine_inputs", lambda *_: {"machine": "this"})
    away = ServedStore(
        SERVER, TRUST, lambda: (_ for _ in ()).throw(FetchError("no answer", why="it is down"))
    )
    given = prepared(tmp_path / "ws", (home, away))
    found = with_stores(given)
    keeper = found.plan.step("ops.wheel").keeper
    assert isinstance(keeper, WheelKeeper)
    assert keeper.found.record is None
    assert keeper.again() == keeper.inputs
    assert unanswered(found.plan) == keeper.unanswered()
    (row,) = pull(given).rows
    assert (row["name"], row["file"], row["kept"]) == ("ops.wheel", "", False)
    assert row["why"] == f"no store has it ({'; '.join(keeper.unanswered())})"
    wheel = tmp_path / "xpubuild_ops-1-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    audit = {"wheel": "/stage/x.whl", "objects": [{"path": "a.so", "rpath": ["$ORIGIN"]}]}
    command = {"argv": ["make"], "started": 1.0, "duration_s": 2.0, "log": "is left out"}
    record = keeper.record(wheel, [{"proof": "x"}, {"audit": audit}], [command])
    created = record.built["created"]
    assert (created[4], created[10]) == ("-", "T")
    nothing = dict.fromkeys(("user_s", "system_s", "max_rss_bytes", "peak_tree_bytes"))
    assert record == replace(
        record_of(b"wheel"), identity=keeper.identity, dist="xpubuild-ops", file=wheel.name,
        inputs=keeper.inputs,
        audit={**audit, "wheel": wheel.name},
        commands=({"argv": ["make"], "started": 1.0, "duration_s": 2.0, **nothing},),
        built={
            "xpubuild": kept.__version__, "created": created, "recipe": "quickstart",
            "lock_digest": given.plan.lock_digest, "host": {"os": {"id": "x"}, "cpu": {}},
        },
    )  # fmt: skip
    audit["objects"] = [{"path": "a.so", "rpath": [f"{tmp_path}/ws/env/lib"]}]
    with pytest.raises(XpuBuildError):
        keeper.record(wheel, [{"audit": audit}], [])
    assert home.keep(replace(record, audit={}), wheel) == ""
    assert [(row["file"], row["kept"], row["why"]) for row in pull(given).rows] == [(wheel.name, True, "")]


def test_paths_and_programs_that_differ_between_machines_have_names(tmp_path: Path) -> None:
    target = target_for("quickstart", workspace="/a b/ws")
    assert places_of(target) == {
        "/a%20b/ws": "{workspace}", "/usr/bin/python3.12": "{python}", "/usr/bin/gcc": "{cc}",
        "/usr/bin/g++": "{cxx}", "/somewhere/cache": "{cache}", "/a b/ws": "{workspace}",
    }  # fmt: skip
    base = base_environment()
    plain = Toolchain(
        "/usr/bin/gcc", "/usr/bin/g++", dict(base), base["PATH"], "/usr/bin/python3.12", {}, ocloc=False
    )
    assert kept._toolchain(target) == plain
    parts = ({"name": "compiler", "path": "/o/compiler"},)
    oneapi = OneapiFacts({"A": "b"}, ("/o/bin",), components=parts)
    assert kept._toolchain(replace(target, oneapi=oneapi, conda_lock="x")) == replace(
        plain, environment={**base, "A": "b", "PATH": f"/o/bin{os.pathsep}{base['PATH']}"}, python="",
        oneapi={"compiler": Path("/o/compiler")}, ocloc=True,
    )  # fmt: skip


def test_wheels_of_a_workspace_without_a_receipt_count_by_content(home: FolderStore, tmp_path: Path) -> None:
    root = tmp_path / "data" / "xpubuild" / "one"
    (root / "wheels").mkdir(parents=True)
    Journal(root / "journal.db").close()
    (root / "wheels" / "a.whl").write_bytes(b"wheel")
    sha256 = record_of(b"wheel").sha256
    assert uses_of(root) == Uses(wheels=frozenset({sha256}))
    assert used_by([root], ["a digest"]) == Used(frozenset(), frozenset({"a digest"}), frozenset({sha256}))
    (root / "wheels" / "b.whl").mkdir()
    with pytest.raises(XpuBuildError):
        uses_of(root)
    unread: list[XpuBuildError] = []
    assert used_by((), unread=unread.append) == Used(frozenset(), frozenset(), frozenset())
    assert len(unread) == 1
    with pytest.raises(XpuBuildError):
        used_by(())
