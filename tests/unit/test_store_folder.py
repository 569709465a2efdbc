"""A store in a folder: kept under names that say what is in it, never overwritten, never followed."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xpubuild.errors import SourceIntegrityError, ToolchainError, UsageError
from xpubuild.supply.depot.keeping import collectable, remove
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Trust, parse_place, trust_from
from xpubuild.supply.depot.record import Record, identity

DIST, FILE = "some-dist", "some_dist-1.0-py3-none-any.whl"
ME = frozenset({0, os.geteuid()})


def record_of(data: bytes, **inputs: Any) -> Record:
    return Record(
        identity=identity(inputs),
        dist=DIST,
        file=FILE,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        inputs=inputs,
        built={"recipe": "r", "lock_digest": "d" * 64, "created": "2026-01-01T00:00:00+0000"},
        audit={"status": "pass"},
    )


@pytest.fixture
def store(tmp_path: Path) -> FolderStore:
    return FolderStore(tmp_path / "store", Trust(frozenset(), ME), own=True)


def keep(store: FolderStore, data: bytes = b"wheel", **inputs: Any) -> Record:
    record = record_of(data, **(inputs or {"a": 1}))
    wheel = store.root.parent / FILE
    wheel.write_bytes(data)
    assert store.keep(record, wheel) == ""
    return record


def age(path: Path, days: float) -> None:
    moment = path.stat().st_mtime - days * 86_400
    os.utime(path, (moment, moment))


def test_what_is_kept_is_found_by_its_name_and_brought_whole(store: FolderStore, tmp_path: Path) -> None:
    record = keep(store)
    assert store.look(DIST, record.identity) == record
    assert store.look(DIST, "0" * 64) is None
    assert store.bring(record, tmp_path / "store").read_bytes() == b"wheel"
    files = sorted(path.name for path in (store.root / "wheels" / DIST).iterdir())
    assert files == sorted([f"{record.identity}.json", f"{record.sha256}.whl"])
    assert all(
        stat.S_IMODE(path.stat().st_mode) == 0o644 for path in (store.root / "wheels" / DIST).iterdir()
    )


def test_another_build_of_the_same_identity_is_refused_and_the_first_stays(
    store: FolderStore, tmp_path: Path
) -> None:
    first = keep(store)
    other = replace(record_of(b"other bytes", a=1))
    wheel = tmp_path / "other.whl"
    wheel.write_bytes(b"other bytes")
    assert f"with sha256 {first.sha256}" in store.keep(other, wheel)
    assert store.look(DIST, first.identity) == first
    assert store.keep(first, store.root.parent / FILE) == ""  # the same again is no matter


@pytest.mark.parametrize(
    "damage", ["wheel altered", "wheel cut", "wheel gone", "record altered", "record empty"]
)
def test_damage_is_refused_and_gives_way_to_a_new_build(
    store: FolderStore, tmp_path: Path, damage: str
) -> None:
    record = keep(store)
    wheel, text = store.root / record.wheel_path, store.root / record.path
    if damage == "wheel altered":
        wheel.write_bytes(b"WHEEL")
    elif damage == "wheel cut":
        wheel.write_bytes(b"whe")
    elif damage == "wheel gone":
        wheel.unlink()
    elif damage == "record altered":
        text.write_bytes(text.read_bytes().replace(b'"a": 1', b'"a": 2'))
    else:
        text.write_bytes(b"")
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(Exception, match=r"not used|cannot be read"):
        store.bring(store.look(DIST, record.identity) or record, into)
    assert list(into.iterdir()) == []
    assert keep(store) == store.look(DIST, record.identity)
    assert store.bring(record, into).read_bytes() == b"wheel"


@pytest.mark.parametrize("what", ["link to a file", "link to nothing", "pipe", "folder"])
@pytest.mark.parametrize("which", ["record", "wheel"])
def test_what_is_no_file_is_neither_read_nor_written(
    store: FolderStore, tmp_path: Path, what: str, which: str
) -> None:
    record = keep(store)
    target = store.root / (record.path if which == "record" else record.wheel_path)
    other = tmp_path / "precious"
    other.write_bytes(target.read_bytes())
    target.unlink()
    if what == "link to a file":
        target.symlink_to(other)
    elif what == "link to nothing":
        target.symlink_to(tmp_path / "nothing")
    elif what == "pipe":
        os.mkfifo(target)
    else:
        target.mkdir()
    before = other.read_bytes()
    into = tmp_path / "into"
    into.mkdir()
    with pytest.raises(SourceIntegrityError):
        store.bring(store.look(DIST, record.identity) or record, into)
    if what == "folder":
        with pytest.raises(SourceIntegrityError):
            store.keep(record, tmp_path / FILE)
    else:
        keep(store)
        assert not target.is_symlink()
        assert target.is_file()
    assert other.read_bytes() == before
    assert not (tmp_path / "nothing").exists()


def test_a_folder_that_is_a_link_is_not_written_through(store: FolderStore, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (store.root / "wheels").mkdir(parents=True)
    (store.root / "wheels" / DIST).symlink_to(elsewhere)
    wheel = tmp_path / FILE
    wheel.write_bytes(b"wheel")
    with pytest.raises((ToolchainError, SourceIntegrityError), match=r"is a link|not used"):
        store.keep(record_of(b"wheel", a=1), wheel)
    assert list(elsewhere.iterdir()) == []


def test_a_store_that_others_can_write_to_is_believed_only_when_it_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    believed = FolderStore(folder, Trust(frozenset(), ME))
    named = FolderStore(folder, trust_from({"XPUBUILD_TRUSTED_STORES": f"https://x.example/s,{folder}"}))
    folder.chmod(0o755)
    assert believed.why_not() == ""
    folder.chmod(0o2775)
    assert believed.why_not().startswith(
        "others can write to it, and no [trust] stores of your configuration"
    )
    assert named.why_not() == ""
    # What is kept there has the store's own permissions, so that others can add to it.
    keep_in = record_of(b"wheel", a=1)
    (tmp_path / FILE).write_bytes(b"wheel")
    assert named.keep(keep_in, tmp_path / FILE) == ""
    assert stat.S_IMODE((folder / "wheels" / DIST).stat().st_mode) == 0o2775
    folder.chmod(0o755)
    assert believed.look(DIST, "0" * 64) is None
    assert believed.why_not().startswith("others can write to it")  # its folder of wheels
    foreign = FolderStore(folder, Trust(frozenset(), frozenset({os.geteuid() + 1})))
    assert "belongs to the user" in foreign.why_not()


def test_a_file_that_others_can_change_is_refused_where_the_store_is_not_named(store: FolderStore) -> None:
    record = keep(store)
    (store.root / record.path).chmod(0o666)
    with pytest.raises(SourceIntegrityError) as caught:
        store.look(DIST, record.identity)
    assert caught.value.why == "somebody else can change it"


def test_servers_are_believed_by_name_alone_and_logins_are_no_part_of_it() -> None:
    trust = trust_from({"XPUBUILD_TRUSTED_STORES": "https://me:secret@cache.example/x/"})
    assert trust.why_not(parse_place("https://cache.example/x", "a store"), ()) == ""
    assert trust.why_not(parse_place("https://cache.example/y", "a store"), ()).startswith(
        "it is on a server, and no [trust] "
    )
    with pytest.raises(UsageError, match="a store cannot be ftp"):
        parse_place("ftp://cache.example/x", "a store")


def test_gc_takes_what_nobody_uses_and_leaves_the_rest(store: FolderStore) -> None:
    old, young = (keep(store, name.encode(), name=name) for name in ("old", "young"))
    age(store.root / old.path, 40)
    age(store.root / old.wheel_path, 40)
    folder = store.root / "wheels" / DIST
    for name in ("e" * 64 + ".whl", ".xpubuild-left", "somebody's notes"):
        (folder / name).write_text("x")
        age(folder / name, 2)
    (folder / ("f" * 64 + ".whl")).write_text("just being written")
    found = collectable(store, 30 * 86_400)
    names = {Path(item.path).name: item.why for item in found}
    assert set(names) == {
        f"{old.identity}.json", f"{old.sha256}.whl", "e" * 64 + ".whl", ".xpubuild-left",
    }  # fmt: skip
    assert names[f"{old.identity}.json"] == "not used for 40 days"
    assert [item.path.endswith(".json") for item in found] == sorted(
        (item.path.endswith(".json") for item in found), reverse=True
    )
    gone, failed = remove(found)
    assert (len(gone), failed) == (4, [])
    assert store.look(DIST, young.identity) == young


def test_gc_leaves_what_a_clock_ahead_has_dated(store: FolderStore) -> None:
    record = keep(store)
    age(store.root / record.path, -4000)
    assert collectable(store, 86_400) == []


def test_a_wheel_that_is_taken_counts_as_used(store: FolderStore, tmp_path: Path) -> None:
    record = keep(store)
    age(store.root / record.path, 40)
    (tmp_path / "into").mkdir()
    store.bring(record, tmp_path / "into")
    assert collectable(store, 30 * 86_400) == []
