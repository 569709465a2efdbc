"""What stores answer, whole: documents, rows, evidence and words."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, Xpubuild
from support.documents import check
from unit.test_store_folder import DIST, FILE, ME, age, keep, record_of

from xpubuild.documents import plain
from xpubuild.errors import FetchError
from xpubuild.supply.depot import kept_wheels as folder_store
from xpubuild.supply.depot.examine import check_depot
from xpubuild.supply.depot.keeping import (
    Found,
    WheelKeeper,
    look_up,
    size_of,
)
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Trust
from xpubuild.supply.depot.record import (
    MOST_BYTES,
    Record,
    RecordError,
    read_record,
)
from xpubuild.supply.git.edits import BARE


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store", Trust(frozenset(), ME), own=True)


def at(store: FolderStore) -> Path:
    return store.root / "wheels" / DIST


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema": "other/1"}, "it is not xpubuild.kept-wheel/1"),
        ({"identity": 1}, "its field 'identity' is not valid: it has a value of another type"),
        ({"commands": [1]}, "its field 'commands' is not valid: it has a value of another type"),
        ({"read": {"/a": 1}}, "its field 'read' is not valid: it has a value of another type"),
        ({"sha256": "A" * 64}, "its size or sha256 is none"),
        ({"size": True}, "its field 'size' is not valid: it has a value of another type"),
        ({"size": -1}, "its size or sha256 is none"),
        ({"inputs": []}, "its field 'inputs' is not valid: it has a value of another type"),
        ({"dist": "other"}, f"it is of other, not of {DIST}"),
        ({"file": "other-1.0-py3-none-any.whl"}, f"it is of {DIST}, not of {DIST}"),
        ({"file": "a/some_dist-1.0-py3-none-any.whl"}, f"it is of {DIST}, not of {DIST}"),
        ({"identity": "0" * 64}, "what it says it was made from is not what it is named for"),
        ({"inputs": {"a": 2}}, "what it says it was made from is not what it is named for"),
    ],
)  # fmt: skip
def test_a_record_that_is_none_says_which_part(change: dict[str, Any], why: str) -> None:
    record = record_of(b"x", a=1)
    document = {**json.loads(record.to_bytes()), **change}
    with pytest.raises(RecordError) as caught:
        read_record(json.dumps(document).encode(), DIST, record.identity)
    assert str(caught.value) == why


def test_a_record_comes_back_whole() -> None:
    record = replace(record_of(b"", a=1), commands=({"argv": ["x"]},))
    assert read_record(record.to_bytes(), DIST, record.identity) == record
    assert record.size == 0
    with pytest.raises(RecordError, match="it is not JSON"):
        read_record(b"{", DIST, record.identity)


@pytest.mark.parametrize("code", ["EPERM"])
def test_a_file_system_without_hard_links_keeps_wheels_too(
    store: FolderStore, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    def link(*_: object) -> None:
        raise OSError(getattr(errno, code), "no links")

    monkeypatch.setattr(folder_store.os, "link", link)
    record = keep(store)
    assert store.look(DIST, record.identity) == record
    assert store.wrong(record) == ""
    assert len(list(at(store).iterdir())) == 2


def test_a_record_may_have_so_many_bytes_and_no_more(store: FolderStore) -> None:
    record = keep(store)
    path = store.root / record.path
    with path.open("ab") as stream:
        stream.truncate(MOST_BYTES + 1)
    assert dict(store.records()) == {path: "it is too large for a record"}
    assert dict(store.records("other")) == {}


def keeper(found: Found, *writable: FolderStore, again: str = "") -> WheelKeeper:
    record = record_of(b"wheel", a=1)
    key = record.identity
    return WheelKeeper(key, found, writable, lambda: again or key, lambda *_: record)


PROVED = [{BARE: True}]


def test_what_is_built_is_kept_unless_what_decides_it_changed(store: FolderStore, tmp_path: Path) -> None:
    wheel = tmp_path / FILE
    wheel.write_bytes(b"wheel")
    (tmp_path / "file").touch()
    no_folder = replace(store, root=tmp_path / "file", own=False)
    assert keeper(Found(), store).keep([wheel, wheel], PROVED, []) == ()
    assert keeper(Found()).keep([wheel], PROVED, []) == ()
    (why,) = keeper(Found(), store, again="0" * 64).keep([wheel], PROVED, [])
    assert "changed while it was built" in why
    assert not store.root.exists()
    assert keeper(Found(), no_folder, store).keep([wheel], PROVED, []) == [
        f"{FILE} is not kept in the store {tmp_path}/file: it is not a folder"
    ]
    assert store.look(DIST, record_of(b"wheel", a=1).identity) is not None
    too_long = replace(store, root=tmp_path / ("x" * 300), own=False)
    assert keeper(Found(), too_long).keep([wheel], PROVED, []) == [
        f"{FILE} is not kept in the store {too_long.root}: File name too long"
    ]


class Silent:
    """A store of which nothing can be learned."""

    name, own = "silent", False

    def __init__(self, error: Exception) -> None:
        self.error = error

    def why_not(self) -> str:
        return ""

    def look(self, dist: str, key: str) -> Record | None:
        raise self.error

    def bring(self, record: Record, into: Path) -> Path:
        raise self.error


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (FetchError("no answer", why="it is down"), "no answer: it is down"),
        (OSError(5, "Input/output error"), "Input/output error"),
        (OSError("broken"), "broken"),
    ],
)
def test_a_store_that_gives_no_answer_is_unknown_and_the_next_counts(
    store: FolderStore, error: Exception, why: str
) -> None:
    record, silent = keep(store), Silent(error)
    shared = replace(store, own=False)
    unknown = {"silent": why}
    assert look_up([silent, shared], DIST, record.identity, 60.0) == Found(record, shared, unknown)
    assert look_up([silent, shared], DIST, "0" * 64, 60.0) == Found(unknown=unknown)
    assert look_up([store, silent], DIST, record.identity, 60.0) == Found(record, store, {})


def test_the_size_of_a_store_counts_each_kind(store: FolderStore) -> None:
    record = keep(store)
    for name in (
        "git/a.git/HEAD",
        "git/.b.git/HEAD",
        "git/c.lock",
        "files/x/y",
        "sets/s.json",
        "sets/t.json",
    ):
        (store.root / name).parent.mkdir(parents=True, exist_ok=True)
        (store.root / name).write_text("1234")
    assert plain(size_of(store)) == {
        "store": str(store.root), "wheels": 1, "repositories": 1, "files": 1, "sets": 2,
        "size_bytes": record.size + len(record.to_bytes()) + 6 * 4, "why": "",
    }  # fmt: skip
    for name in ("files", "sets"):
        shutil.rmtree(store.root / name)
    found = check_depot(store.root)
    assert [(item.path, item.what, item.why) for item in found] == [
        ("git/a.git", "is damaged", "git finds objects that are missing or changed")
    ]
    (store.root / record.wheel_path).unlink()
    shutil.rmtree(store.root / "git")
    (damage,) = check_depot(store.root)
    assert (damage.path, damage.what, damage.why) == (record.path, "is damaged", "No such file or directory")


# ---- ``xpubuild store`` and names with typing errors, broken receipts, and wheels that cannot be copied


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


def test_what_gc_says_to_type_has_the_options_that_decide(
    xpubuild: Xpubuild, old: Record, tmp_path: Path
) -> None:
    other = tmp_path / "an other"
    other.mkdir()
    result = xpubuild("store", "gc", "--older", "8w", "--store", str(other), "--json")
    (words,) = {command.rpartition(" ")[0] for command in result.document()["error"]["commands"]}
    assert words == f"xpubuild store gc --older 8w --store '{other}'"
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
