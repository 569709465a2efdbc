"""``xpubuild store`` and names with typing errors, broken receipts, and wheels that cannot be copied."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest
from support.cli import Result, Xpubuild
from support.documents import check
from unit.test_store_folder import FILE, ME, age, record_of

from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Trust
from xpubuild.supply.depot.record import Record


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
