"""Documents of a mirror that somebody crafted: each carries the right digest, and is refused all the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from xpubuild.engine.events import NullSink
from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.install.fetch_export import import_mirror
from xpubuild.supply.mirror.entries import Entry, EntryError, FileRecord, parse, render, sealed
from xpubuild.supply.mirror.index import render_index
from xpubuild.supply.mirror.sets import MirrorSet, RepositoryUse, read_set
from xpubuild.supply.mirror.store import Mirror
from xpubuild.supply.mirror.tarform import FIRST, SCHEMA, header, padding, read_contents

_DIGEST = "a" * 64
_ENTRY = json.loads(render(Entry("set", "x", (FileRecord("sets/x.json", 1, _DIGEST),))))
_FILE = _ENTRY["files"][0]
_USE = RepositoryUse("torch", "https://example.com/x.git", "a" * 40)
_SET = MirrorSet("x", ("3.11",), (_USE,), (_DIGEST,)).to_json()
_REPOSITORY = _SET["repositories"][0]
#: Half of a surrogate pair: JSON can name it, and no encoding has it.
_HALF = rb'{"schema":"%s","x":"\ud800"}'
_DEEP = b'{"schema":"%s","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "change",
    [{"kind": []}, {"kind": "other"}, {"kind": None}, {"name": 1}, {"name": ["x"]}, {"files": {}},
     {"files": [1]}, {"files": [{**_FILE, "size": True}]}, {"files": [{**_FILE, "size": 1 << 70}]},
     {"files": "x"}, {"files": [{**_FILE, "sha256": 1}]}, {"files": [{**_FILE, "path": []}]}, {"files": [{}]},
     {"url": 5}, {"pins": [1]}, {"pins": "a" * 40}, {"dist": None}, {"version": {}}, {"more": 1}],
)  # fmt: skip
def test_an_entry_with_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    assert parse(sealed(_ENTRY), "set-x").name == "x"
    with pytest.raises(EntryError):
        parse(sealed({**_ENTRY, **change}), "set-x")


@pytest.mark.parametrize(
    "change",
    [{"repositories": [{**_REPOSITORY, name: value}]}
     for name, value in [("component", 1), ("url", 5), ("url", None), ("url", "https://[x/y"), ("commit", 7),
                         ("commit", "main"), ("commit", ""), ("path", []), ("ref", 1), ("configure_time", 1),
                         ("more", 1)]]
    + [{"repositories": [1]}, {"repositories": {}}, {"files": ["x"]}, {"files": [1]}, {"pythons": [3]},
       {"pythons": "3.11"}, {"recipe": []}, {"inputs": 1}, {"more": 1}],
)  # fmt: skip
def test_a_set_with_a_wrong_field_is_refused(change: dict[str, Any]) -> None:
    assert read_set(sealed(_SET)).repositories == (_USE,)
    with pytest.raises(EntryError):
        read_set(sealed({**_SET, **change}))


@pytest.mark.parametrize("text", [_HALF, _DEEP])
def test_what_cannot_be_written_is_no_document(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(EntryError):
        parse(text % b"xpubuild.mirror-entry/1", "set-x")
    with pytest.raises(EntryError):
        read_contents(text % SCHEMA.encode())
    mirror = Mirror.open(tmp_path / "mirror", create=True)
    (mirror.path / "index.json").write_bytes(render_index([]) + text % b"xpubuild.mirror-entry/1")
    assert [item.path for item in mirror.check()] == ["index.json"]
    (mirror.path / "index.json").unlink()
    # As an earlier xpubuild had it.
    (mirror.path / "manifest").mkdir()
    (mirror.path / "manifest" / "set-x.json").write_bytes(text % b"xpubuild.mirror-entry/1")
    assert [item.path for item in mirror.check()] == ["manifest/set-x.json"]
    first = text % SCHEMA.encode()
    (tmp_path / "x.tar").write_bytes(header(FIRST, len(first)) + first + padding(len(first)))
    with pytest.raises(SourceIntegrityError, match=r"MANIFEST\.json"):
        import_mirror(mirror.path, tmp_path / "x.tar", sink=NullSink(), cancel=Cancel())


def test_a_member_larger_than_any_file_is_refused() -> None:
    member = {"path": "files/x", "size": 1 << 100, "sha256": _DIGEST}
    with pytest.raises(EntryError):
        read_contents(sealed({"schema": SCHEMA, "members": [member]}))


def test_a_set_that_nothing_can_read_is_damage(tmp_path: Path) -> None:
    mirror = Mirror.open(tmp_path / "mirror", create=True)
    data = sealed({**_SET, "repositories": [{**_REPOSITORY, "commit": 7}]})
    with mirror.stage() as change:
        record = change.write("sets/x.json", data)
        assert record.sha256 == hashlib.sha256(data).hexdigest()
        change.enter(Entry("set", "x", (record,)))
        change.publish()
    assert [item.path for item in mirror.check()] == ["sets/x.json"]
    with pytest.raises(SourceIntegrityError, match=r"sets/x\.json"):
        mirror.sets()


def test_a_failed_import_leaves_no_folder(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(b"x")
    with pytest.raises(SourceIntegrityError):
        import_mirror(tmp_path / "new", tmp_path / "x.tar", sink=NullSink(), cancel=Cancel())
    assert not (tmp_path / "new").exists()
