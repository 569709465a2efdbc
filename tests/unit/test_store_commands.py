"""``xpubuild store`` and names with typing errors, broken receipts, and wheels that cannot be copied."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, Xpubuild
from support.documents import check
from unit.test_store_folder import DIST, FILE, ME, age, record_of

from xpubuild.engine.journal import Journal
from xpubuild.supply.depot.keeping import look_up
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Trust
from xpubuild.supply.depot.record import IDENTITY, TAKEN, Record, taken_from


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FolderStore:
    """The user's own store, with nothing in the folder of default workspaces."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return FolderStore(tmp_path / "cache" / "xpubuild", Trust(frozenset(), ME), own=True)


@pytest.fixture
def old(own: FolderStore, tmp_path: Path) -> Record:
    """A kept wheel that gc takes if nothing refers to it."""
    record = record_of(b"wheel", a=1)
    (tmp_path / FILE).write_bytes(b"wheel")
    assert own.keep(record, tmp_path / FILE) == ""
    for path in (record.path, record.wheel_path):
        age(own.root / path, 90)
    return record


def workspace(root: Path, *evidence: dict[str, Any]) -> Path:
    """Make a workspace whose install was killed after the step of a wheel; it has no receipt."""
    root.mkdir(parents=True)
    with Journal(root / "journal.db") as journal:
        journal.start_run("some", ["xpubuild", "install", "some"], "1")
        journal.begin("some.wheel", "f")
        if evidence:
            journal.done("some.wheel", evidence=evidence, witnesses={}, published=[])
    return root


def receipt(root: Path, text: str) -> Path:
    (root / "receipt.json").write_text(text)
    return root


def built(record: Record) -> dict[str, Any]:
    return {"proof": IDENTITY, "identity": record.identity}


@pytest.mark.parametrize("place", ["nowhere", "a file", "no workspace"])
def test_gc_removes_nothing_where_a_workspace_is_not_one(
    xpubuild: Xpubuild, own: FolderStore, old: Record, tmp_path: Path, place: str
) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "no workspace").mkdir()
    result = xpubuild("store", "gc", "--yes", "--workspace", str(tmp_path / place))
    assert result.status == 2
    assert f"there is no workspace at {tmp_path / place}" in " ".join(result.err.split())
    assert own.look(DIST, old.identity) == old


@pytest.mark.parametrize("by", ["journal", "wheel", "receipt", "nothing"])
def test_gc_keeps_what_a_workspace_has_also_after_a_killed_install(
    xpubuild: Xpubuild, own: FolderStore, old: Record, tmp_path: Path, by: str
) -> None:
    root = workspace(tmp_path / "ws", *([built(old)] if by == "journal" else []))
    if by == "wheel":
        (root / "wheels").mkdir()
        (root / "wheels" / FILE).write_bytes(b"wheel")
    if by == "receipt":
        receipt(root, json.dumps({"steps": [{"id": "some.wheel", "evidence": [built(old)]}]}))
    document = check(xpubuild.json("store", "gc", "--yes", "--workspace", str(root)), "store-gc")
    assert len(document["removed"]) == (2 if by == "nothing" else 0)
    assert (own.look(DIST, old.identity) is None) == (by == "nothing")


def test_what_gc_says_to_type_has_the_options_that_decide(
    xpubuild: Xpubuild, old: Record, tmp_path: Path
) -> None:
    root, other = workspace(tmp_path / "a ws"), tmp_path / "other"
    other.mkdir()
    result = xpubuild(
        "store", "gc", "--older", "8w", "--workspace", str(root), "--store", str(other), "--json"
    )
    (words,) = {command.rpartition(" ")[0] for command in result.document()["error"]["commands"]}
    assert words == f"xpubuild store gc --older 8w --store {other} --workspace '{root}'"
    assert result.status == 2


def test_push_makes_the_folder_and_a_second_push_finds_all_there(
    xpubuild: Xpubuild, old: Record, tmp_path: Path
) -> None:
    target = tmp_path / "shared"
    before = os.umask(0o002)
    try:
        for _ in range(2):
            (row,) = check(xpubuild.json("store", "push", "--store", str(target)), "store-copy")["wheels"]
            assert (row["file"], row["kept"]) == (FILE, True)
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o755


def no_parent(tmp_path: Path) -> Path:
    return tmp_path / "not mounted" / "store"


def a_file(tmp_path: Path) -> Path:
    (tmp_path / "file").touch()
    return tmp_path / "file"


def below_a_file(tmp_path: Path) -> Path:
    return a_file(tmp_path) / "store"


@pytest.mark.parametrize(
    ("place", "status", "told"),
    [
        (no_parent, 40, "mkdir -p"),
        (a_file, 2, "a store is a folder; name another"),
        (below_a_file, 40, "cannot be"),
    ],
)
def test_push_to_what_cannot_be_a_store_says_what_to_do(
    xpubuild: Xpubuild, old: Record, tmp_path: Path, *, place: Any, status: int, told: str
) -> None:
    result = xpubuild("store", "push", "--store", str(place(tmp_path)), "--json")
    error = result.document()["error"]
    assert result.status == status, error
    assert told in " ".join([error["what"], error["fix"], *error["commands"]])
    assert error["fix"]


def pushed(xpubuild: Xpubuild, tmp_path: Path, *words: str) -> tuple[Result, list[dict[str, Any]]]:
    result = xpubuild("store", "push", *words, "--store", str(tmp_path / "shared"), "--json")
    return result, check(result.document(), "store-copy")["wheels"]


@pytest.mark.parametrize("damage", ["wheel", "record"])
def test_a_wheel_that_is_altered_is_not_copied_and_the_status_says_so(
    xpubuild: Xpubuild, own: FolderStore, old: Record, tmp_path: Path, damage: str
) -> None:
    (own.root / (old.wheel_path if damage == "wheel" else old.path)).write_bytes(b"other")
    result, (row,) = pushed(xpubuild, tmp_path)
    assert (result.status, row["kept"]) == (31, False)
    assert row["why"]
    told = xpubuild("store", "push", "--store", str(tmp_path / "shared"))
    assert "1 of 1 wheels were not copied" in told.err
    assert row["store"] in told.out.replace("\n", "")


def test_a_wheel_of_the_workspace_that_your_store_lacks_is_a_failure(
    xpubuild: Xpubuild, own: FolderStore, tmp_path: Path
) -> None:
    lacking = record_of(b"wheel", a=2)
    root = workspace(tmp_path / "ws", built(lacking))
    result, (row,) = pushed(xpubuild, tmp_path, "--workspace", str(root))
    assert (result.status, row["name"], row["kept"]) == (30, "some.wheel", False)
    (tmp_path / FILE).write_bytes(b"wheel")
    FolderStore(tmp_path / "shared", Trust(frozenset(), ME)).keep(lacking, tmp_path / FILE)
    result, (row,) = pushed(xpubuild, tmp_path, "--workspace", str(root))
    assert (result.status, row["kept"]) == (0, True)


def test_a_store_that_is_not_there_does_not_look_empty(
    xpubuild: Xpubuild, own: FolderStore, tmp_path: Path
) -> None:
    gone = str(tmp_path / "gone")
    stores = check(xpubuild.json("store", "list", "--store", gone), "store")["stores"]
    assert [(item["believed"], item["why"]) for item in stores] == [(True, ""), (False, "it is not there")]
    sizes = check(xpubuild.json("store", "size", "--store", gone), "store-size")["stores"]
    assert [item["why"] for item in sizes] == ["", "it is not there"]
    for command in ("list", "size"):
        assert "it is not there" in " ".join(xpubuild.ok("store", command, "--store", gone).out.split())
    result = xpubuild("store", "gc", "--store", gone, "--yes")
    assert (result.status, f"there is no store at {gone}" in " ".join(result.err.split())) == (2, True)
    found = look_up([own, FolderStore(Path(gone), own.trust)], DIST, "0" * 64, 60.0)
    assert found.unknown == {gone: "it is not there"}


def test_status_and_the_result_name_the_store_that_a_wheel_came_from(
    xpubuild: Xpubuild, own: FolderStore, tmp_path: Path
) -> None:
    taken = {"proof": TAKEN, "store": "/shared/store", "identity": "0" * 64}
    root = workspace(tmp_path / "ws", {"proof": "audited"}, taken)
    (step,) = check(xpubuild.json("status", "--workspace", str(root)), "status")["steps"]
    assert step["store"] == "/shared/store"
    assert "from the store /shared/store" in xpubuild.ok("status", "--workspace", str(root)).out
    assert taken_from([{"proof": IDENTITY, "identity": "0" * 64}]) is None


def test_check_names_an_altered_wheel_and_changes_nothing(
    xpubuild: Xpubuild, own: FolderStore, old: Record
) -> None:
    (row,) = check(xpubuild.json("check", str(own.root)), "store-check")["stores"]
    assert (row["store"], row["damaged"]) == (str(own.root), [])
    assert "Nothing is damaged" in xpubuild.ok("check", str(own.root)).out
    wheel = own.root / old.wheel_path
    wheel.write_bytes(b"wheal")
    result = xpubuild("check", str(own.root), "--json")
    (row,) = check(result.document(), "store-check")["stores"]
    assert (result.status, [item["path"] for item in row["damaged"]]) == (31, [old.path])
    assert wheel.read_bytes() == b"wheal"
    (own.root / old.path).write_bytes(b"{}")
    assert xpubuild("check", str(own.root)).status == 31
    assert xpubuild("check", str(own.root / "nowhere")).status == 2
