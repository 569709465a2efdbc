"""What of a mirror is refused or damaged, each kind in its own words."""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import replace
from pathlib import Path

import pytest
from unit.test_mirror_store import add, wheel

from xpubuild.errors import SourceIntegrityError, XpuBuildError
from xpubuild.supply.mirror import writing
from xpubuild.supply.mirror.entries import (
    Entry,
    EntryError,
    FileRecord,
    is_commit,
    is_name,
    is_sha256,
    parse,
    render,
)
from xpubuild.supply.mirror.failures import damage_error, no_file, no_mirror
from xpubuild.supply.mirror.foreign import require_no_way_out, unverified
from xpubuild.supply.mirror.index import derived_damage, read_index, read_manifest, render_index
from xpubuild.supply.mirror.reading import Damage, compare
from xpubuild.supply.mirror.store import Mirror

A = "a" * 64
GIT = Entry("git", "x.git", (FileRecord("git/x.git/HEAD", 1, A),), pins=("c" * 40,))
FILE = Entry("wheel", "x.whl", (FileRecord(f"files/{A}/x.whl", 1, A),), dist="x", version="1")
SET = Entry("set", "x", (FileRecord("sets/x.json", 1, A),))


@pytest.fixture
def mirror(tmp_path: Path) -> Mirror:
    return Mirror.open(tmp_path / "mirror", create=True)


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (replace(SET, files=(FileRecord("sets/x.json", -1, A),)), "a file of it has no size or sha256"),
        (replace(SET, files=(FileRecord("sets/x.json", 1 << 63, A),)), "a file of it has no size or sha256"),
        (replace(SET, files=(FileRecord("sets/x.json", 1, "A" * 64),)), "a file of it has no size or sha256"),
        (replace(SET, files=()), "its name or files are not those of a mirror"),
        (replace(SET, name="-x"), "its name or files are not those of a mirror"),
        (replace(GIT, files=GIT.files * 2), "it lists a file twice"),
        (
            replace(GIT, files=(FileRecord("git/x.git/hooks/x", 1, A),)),
            "'git/x.git/hooks/x' is not a file of git-x.git",
        ),
        (
            replace(GIT, files=(FileRecord("git/y.git/HEAD", 1, A),)),
            "'git/y.git/HEAD' is not a file of git-x.git",
        ),
        (
            replace(GIT, name="x", files=(FileRecord("git/x/HEAD", 1, A),)),
            "'git/x/HEAD' is not a file of git-x",
        ),
        (
            replace(SET, files=(*SET.files, FileRecord("sets/y.json", 1, A))),
            "'sets/x.json' is not a file of set-x",
        ),
        (replace(SET, files=(FileRecord("sets/y.json", 1, A),)), "'sets/y.json' is not a file of set-x"),
        (
            replace(FILE, files=(FileRecord(f"files/{A}/y.whl", 1, A),)),
            f"'files/{A}/y.whl' is not a file of file-{A}",
        ),
        (replace(GIT, pins=()), "its pins are missing, or not commits"),
        (replace(GIT, pins=("c" * 41,)), "its pins are missing, or not commits"),
        (replace(SET, pins=("c" * 40,)), "its pins are missing, or not commits"),
    ],
)
def test_an_entry_that_is_not_its_own_says_why(entry: Entry, why: str) -> None:
    with pytest.raises(EntryError) as caught:
        parse(render(entry), entry.id)
    assert str(caught.value) == why


def test_an_entry_comes_back_whole() -> None:
    largest = replace(SET, files=(FileRecord("sets/x.json", (1 << 63) - 1, A),))
    for entry in (GIT, FILE, SET, largest, replace(SET, files=(FileRecord("sets/x.json", 0, A),))):
        assert parse(render(entry), entry.id) == entry
    with pytest.raises(EntryError, match="it is the entry of set-x"):
        parse(render(SET), "set-y")
    assert (GIT.folder, FILE.folder, SET.folder) == ("git/x.git", f"files/{A}", "")
    assert [is_name(text) for text in ("a", "a" * 200, "a" * 201, "", ".a", "-a", "a/b", "a\x7f")] == [
        True, True, False, False, False, False, False, False,
    ]  # fmt: skip
    assert [is_commit("a" * size) for size in (39, 40, 41, 64, 65)] == [False, True, False, True, False]
    assert [is_sha256(text) for text in ("a" * 64, "a" * 63, "G" * 64)] == [True, False, False]


def test_the_sound_lines_of_a_damaged_index_are_read() -> None:
    data = render_index([SET, FILE])
    assert read_index(data) == ({SET.id: SET, FILE.id: FILE}, "")
    assert list(read_index(data)[0]) == sorted([SET.id, FILE.id])
    assert (
        read_index(data.replace(b'"digest":"', b'"digest":"0', 1))[1]
        == "its content does not match its digest"
    )
    lines = data.split(b"\n")
    assert read_index(b"\n".join([lines[0], b"{", *lines[2:]]))[1] == "a line of it is not an entry"
    assert list(read_index(b"\n".join([lines[0], b"{", *lines[2:]]))[0]) == [SET.id]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_damage_names_the_first_and_counts_the_rest(tmp_path: Path, count: int) -> None:
    damages = [Damage(f"p{number}", "is damaged", f"why {number}", f"e{number}") for number in range(count)]
    with pytest.raises(SourceIntegrityError):
        raise damage_error(tmp_path / "a b", damages)
    assert str(damages[0])


def test_what_is_no_mirror_and_has_no_file_is_told_whole(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "not there"):
        with pytest.raises(XpuBuildError):
            raise no_mirror(place)
    with pytest.raises(XpuBuildError):
        raise no_file(tmp_path, A)


def test_a_link_in_a_mirror_is_named(tmp_path: Path) -> None:
    mirror = Mirror.open(tmp_path / "it's one", create=True)
    require_no_way_out(mirror.path)
    deep = mirror.path / "git" / "x.git" / "refs"
    deep.mkdir(parents=True)
    (deep / "file").symlink_to("nothing")  # no folder: replaced, never followed
    require_no_way_out(mirror.path)
    for link in (deep / "folder", mirror.path / "files"):
        link.symlink_to(tmp_path)
        with pytest.raises(SourceIntegrityError):
            require_no_way_out(mirror.path)
        link.unlink()


def test_what_is_not_the_index_nor_the_page_is_damage(tmp_path: Path, mirror: Mirror) -> None:
    add(mirror, *wheel(tmp_path))
    page, index = mirror.path / "wheels.html", mirror.path / "index.json"
    manifest = read_manifest(mirror.path)
    assert list(derived_damage(mirror.path, manifest)) == []
    text = page.read_bytes()
    for act, said in (
        (
            lambda: page.write_bytes(b""),
            ("wheels.html", "is damaged", "its links are not those of the index"),
        ),
        (page.unlink, ("wheels.html", "is missing", "there are packages in the mirror")),
        (page.mkdir, ("wheels.html", "is damaged", "it cannot be read: it is not a regular file")),
    ):
        act()
        assert list(derived_damage(mirror.path, manifest)) == [Damage(*said, "wheels.html")]
    page.rmdir()
    page.write_bytes(text)
    index.rename(tmp_path / "index")
    assert list(derived_damage(mirror.path, manifest)) == [
        Damage("index.json", "is missing", "there is something in the mirror", "index.json")
    ]
    index.mkdir()
    (damage,) = read_manifest(mirror.path).damages
    assert damage == Damage(
        "index.json", "is damaged", "it cannot be read: it is not a regular file", "index.json"
    )


def test_a_file_is_compared_by_size_and_hash(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    digest = hashlib.sha256(b"abc").hexdigest()
    other = hashlib.sha256(b"abd").hexdigest()
    assert compare(tmp_path, FileRecord("x", 3, digest)) == ""
    said = [
        compare(tmp_path, record)
        for record in (FileRecord("x", 4, digest), FileRecord("x", 3, other), FileRecord("y", 3, A))
    ]
    assert all(said)
    assert len(set(said)) == 3
    (tmp_path / "d").mkdir()
    assert compare(tmp_path, FileRecord("d", 0, A))


def test_a_change_that_is_not_whole_is_not_carried_on_with(tmp_path: Path, mirror: Mirror) -> None:
    add(mirror, *wheel(tmp_path))
    ready = tmp_path / "ready"
    ready.mkdir()
    (ready / "index.json").write_bytes((mirror.path / "index.json").read_bytes())
    assert unverified(mirror.path, ready) == ""
    (ready / "strange").touch()
    assert unverified(mirror.path, ready) == "no entry has strange"
    (ready / "strange").unlink()
    (record,) = mirror.files()[0].files
    (mirror.path / record.path).unlink()
    assert unverified(mirror.path, ready) == f"{record.path}: {compare(ready, record)}"
    (ready / "index.json").write_bytes(b"")
    assert "index.json" in unverified(mirror.path, ready)


def test_what_cannot_be_moved_into_a_mirror_is_told(
    tmp_path: Path, mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, digest = wheel(tmp_path)

    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(writing.os, "fsync", refuse)
    with pytest.raises(XpuBuildError):
        add(mirror, source, digest)
    monkeypatch.undo()
    assert mirror.files() == []
