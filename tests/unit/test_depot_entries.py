"""The documents of a depot: they come back as they were, and what somebody crafted is refused."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from xpubuild.supply.depot.entries import (
    DepotSet,
    Entry,
    EntryError,
    FileRecord,
    Index,
    OtherVersionError,
    RepositoryUse,
    file_entry,
    index_of,
    read_index,
    read_set,
)

A, COMMIT = "a" * 64, "c" * 40
PACK = FileRecord(f"git/x.git/objects/pack/pack-{COMMIT}.pack", 1, A)
GIT = Entry("git", "x.git", (PACK,), "https://example.com/x.git", pins=(COMMIT,), named=(("v1", COMMIT),))
FILE = file_entry("x-1.0-py3-none-any.whl", A, 7, url="https://example.com/x.whl")
USE = RepositoryUse("torch", "https://example.com/x.git", COMMIT, "third_party/x", "v1", True)
SET = DepotSet("2.8", ("3.10", "3.11"), (USE,), (FILE,), inputs="d" * 64)
INDEX = index_of([GIT, FILE], [SET])


def sealed(document: dict[str, Any]) -> bytes:
    """Return a document with the digest of itself, as xpubuild writes it."""
    body = {name: value for name, value in document.items() if name != "digest"}

    def text(value: dict[str, Any]) -> bytes:
        return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).encode() + b"\n"

    return text({**body, "digest": hashlib.sha256(text(body)).hexdigest()})


def test_index_and_set_come_back_as_they_were() -> None:
    assert read_index(INDEX.text()) == INDEX
    assert read_index(Index().text()) == Index()
    assert read_set(SET.text()) == SET
    assert sealed(json.loads(INDEX.text())) == INDEX.text()
    assert (FILE.kind, FILE.dist, FILE.version, FILE.id) == ("wheel", "x", "1.0", f"file-{A}")
    assert SET.name.startswith("2.8-")
    assert SET.path in (f"sets/{name}.json" for name in INDEX.sets)


@pytest.mark.parametrize("text", [INDEX.text(), SET.text()])
def test_every_other_byte_is_damage(text: bytes) -> None:
    for number in range(0, len(text), 7):
        for other in (text[:number] + bytes([text[number] ^ 1]) + text[number + 1 :], text[:number]):
            with pytest.raises(EntryError):
                (read_index if text == INDEX.text() else read_set)(other)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (replace(FILE, files=()), "its name or files"),
        (replace(FILE, name="../x"), "its name or files"),
        (replace(FILE, name="-x"), "its name or files"),
        (replace(FILE, files=(replace(FILE.files[0], size=-1),)), "no size or sha256"),
        (replace(FILE, files=(replace(FILE.files[0], sha256="A" * 64),)), "is not a file of"),
        (replace(FILE, files=(FileRecord(f"files/{A}/../../x", 1, A),)), "is not a file of"),
        (replace(FILE, files=FILE.files * 2), "its name or files"),
        (replace(GIT, files=(FileRecord("git/x.git/hooks/x", 1, A),)), "is not a file of git-x.git"),
        (replace(GIT, files=(replace(PACK, path=PACK.path.replace("x.git", "y.git")),)), "is not a file of"),
        (replace(GIT, pins=()), "has no pins"),
        (replace(GIT, pins=("main",)), "pins that are not commits"),
        (replace(GIT, named=(("../v1", COMMIT),)), "names that are not refs"),
        (replace(GIT, named=(("v1.lock", COMMIT),)), "names that are not refs"),
    ],
)
def test_an_entry_that_names_what_is_not_its_own_is_refused(entry: Entry, why: str) -> None:
    with pytest.raises(EntryError, match=why):
        read_index(Index({"x": entry}).text())


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["entries"][0].update(kind="other"),
        lambda found: found["entries"][0].update(files="x"),
        lambda found: found["entries"][0]["files"][0].update(size=True),
        lambda found: found["entries"][0].update(url=5),
        lambda found: found.update(entries={}),
        lambda found: found["sets"][0].update(pythons="3.11"),
        lambda found: found["sets"][0].update(recipe="../x"),
        lambda found: found["sets"][0]["repositories"][0].update(commit="main"),
        lambda found: found["sets"][0]["repositories"][0].update(url="https://[x/y"),
        lambda found: found.update(schema="other"),
    ],
)
def test_an_index_with_a_wrong_field_is_refused(change: Callable[[Any], None]) -> None:
    document = json.loads(INDEX.text())
    change(document)
    with pytest.raises(EntryError):
        read_index(sealed(document))


def test_an_index_of_another_version_is_no_damage() -> None:
    for schema in ("xpubuild.depot/2", "xpubuild.mirror-index/2"):
        with pytest.raises(OtherVersionError):
            read_index(sealed({**json.loads(INDEX.text()), "schema": schema}))
    for data in (b"", b"[]", b"{", b"\xff", b'{"schema":"xpubuild.depot/1","x":"\\ud800"}',
                 b'{"schema":"xpubuild.depot/1","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"):  # fmt: skip
        with pytest.raises(EntryError) as caught:
            read_index(data)
        assert not isinstance(caught.value, OtherVersionError)
