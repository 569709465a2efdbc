"""What of a mirror is refused or damaged, each kind in its own words."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
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
from xpubuild.supply.mirror.exporting import export
from xpubuild.supply.mirror.failures import damage_error, no_file, no_mirror
from xpubuild.supply.mirror.foreign import require_no_way_out, unverified
from xpubuild.supply.mirror.importing import import_file, look_at
from xpubuild.supply.mirror.index import derived_damage, read_index, read_manifest, render_index
from xpubuild.supply.mirror.old import read_old_index
from xpubuild.supply.mirror.reading import Damage, compare
from xpubuild.supply.mirror.store import Mirror
from xpubuild.supply.mirror.tarform import contents_text, read_contents

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


def test_an_index_of_an_earlier_version_must_name_entries() -> None:
    from xpubuild.supply.mirror.entries import sealed
    from xpubuild.supply.mirror.old import SCHEMA

    assert read_old_index(sealed({"schema": SCHEMA, "entries": {"a": A, "page-wheels": A}})) == {"a": A}
    for entries, why in (
        ([], "it has no entries"),
        ({"a": "b"}, "'a' is not an entry with a sha256"),
        ({"a": 1}, "'a' is not an entry with a sha256"),
        ({"../a": A}, "'../a' is not an entry with a sha256"),
    ):
        with pytest.raises(EntryError) as caught:
            read_old_index(sealed({"schema": SCHEMA, "entries": entries}))
        assert str(caught.value) == why


def test_an_export_lists_each_member_once() -> None:
    members = (FileRecord("files/x", 1, A), FileRecord("files/y", 2, "b" * 64))
    contents = read_contents(contents_text(members))
    assert (contents.members, contents.size) == (members, 3)
    with pytest.raises(EntryError, match="it lists a member twice"):
        read_contents(contents_text((members[0], members[0])))


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


@pytest.mark.parametrize(
    ("act", "why"),
    [
        (lambda path: path.unlink(), "it does not exist"),
        (lambda path: path.write_bytes(b"a wheal"), "it does not match the index"),
        (lambda path: path.write_bytes(b"a whee"), "it does not match the index"),
    ],
)
def test_a_damaged_file_is_not_exported(
    tmp_path: Path, mirror: Mirror, act: Callable[[Path], object], why: str
) -> None:
    source, digest = wheel(tmp_path)
    act(add(mirror, source, digest))
    with pytest.raises(SourceIntegrityError) as caught:
        export(mirror, mirror.files(), tmp_path / "out.tar")
    assert caught.value.why == why
    assert not (tmp_path / "out.tar").exists()


def exported(tmp_path: Path, mirror: Mirror) -> Path:
    add(mirror, *wheel(tmp_path))
    export(mirror, mirror.files(), tmp_path / "out.tar")
    return tmp_path / "out.tar"


@pytest.mark.parametrize(
    "place", ["first", "inside", "header", "padding", "manifest", "last", "more", "cut", "none"]
)
def test_a_damaged_export_names_the_member(tmp_path: Path, mirror: Mirror, place: str) -> None:
    target = exported(tmp_path, mirror)
    data = target.read_bytes()
    wheel_at = data.index(b"a wheel")
    if place == "cut":
        data = data[: wheel_at + 3]
    elif place == "more":
        data += b"x"
    elif place == "none":
        data = b""
    else:
        at = {
            "first": 0, "inside": wheel_at, "header": wheel_at - 512, "padding": wheel_at + 8,
            "manifest": data.index(b'"schema"'), "last": len(data) - 1,
        }[place]  # fmt: skip
        data = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    target.write_bytes(data)
    other = Mirror.open(tmp_path / "other", create=True)
    with pytest.raises(SourceIntegrityError):
        look_at(target)
    with pytest.raises(SourceIntegrityError):
        import_file(target, other)
    assert other.files() == []
    with pytest.raises(XpuBuildError):
        look_at(tmp_path / "none.tar")


def test_an_export_is_imported_once(tmp_path: Path, mirror: Mirror) -> None:
    target = exported(tmp_path, mirror)
    other = Mirror.open(tmp_path / "other", create=True)
    read: list[int] = []
    first = import_file(target, other, progress=read.append)
    assert (first.new, first.known, sum(read) >= 7) == (tuple(mirror.files()), (), True)
    again = import_file(target, other)
    assert (again.new, again.known) == ((), tuple(mirror.files()))
    assert look_at(target) == again.contents


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
