"""What --mirror names, the index of a mirror, and what of an index a recipe needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from xpubuild.errors import InterruptedByUserError, NoSpaceError, SourceIntegrityError, UsageError
from xpubuild.supply.mirror.entries import INDEX, Entry, FileRecord
from xpubuild.supply.mirror.index import read_index, render_index
from xpubuild.supply.mirror.remote.choose import set_ids
from xpubuild.supply.mirror.remote.location import Location, parse_mirror
from xpubuild.supply.mirror.sets import MirrorSet
from xpubuild.supply.mirror.store import Mirror

_HASH = "ab" * 32


@pytest.mark.parametrize(
    ("text", "url", "link"),
    [
        ("http://Mirror.Site:80/xpu/", "http://mirror.site/xpu", None),
        ("HTTPS://mirror.site:8443", "https://mirror.site:8443", None),
        (
            "https://me:p%40ss@mirror.site/x%20y",
            "https://mirror.site/x%20y",
            "https://me:p%40ss@mirror.site/x%20y",
        ),
        ("http://[::1]:8080/m", "http://[::1]:8080/m", None),
    ],
)
def test_a_url_is_read(text: str, url: str, link: str | None) -> None:
    found = parse_mirror(text)
    assert isinstance(found, Location)
    assert str(found) == found.url == url
    assert found.link == (link or url)
    assert "p%40ss" not in f"{found!r}{found}{found.folder_name}"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/srv/m", "/srv/m"),
        ("file:///srv/a%20b", "/srv/a b"),
        ("file://localhost/m", "/m"),
        ("./a://b", "a:/b"),
    ],
)
def test_a_folder_is_a_folder(text: str, path: str) -> None:
    assert parse_mirror(text) == Path(path).absolute()


@pytest.mark.parametrize(
    "text",
    [
        "ftp://me:secret@host/m", "git+ssh://host/m", "http:///m", "http://host:port/m", "https://h/m?token=secret",
        "https://h/m#x", "http://a b/m", "file://other/m", "ssh://me:secret@host/m", "http://u:secret/x@h:port/m",
        "http://ho\nst/m", "http://[::1/m", "http:/host/m", "http:/me:secret@host/m", "file:///m?x", "file:///m#x",
        "file:///m%00x",
    ],
)  # fmt: skip
def test_what_is_no_mirror_is_refused_without_its_secrets(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_mirror(text)
    assert caught.value.exit_code == 2
    assert "secret" not in f"{caught.value.to_json()}"


def test_what_is_refused_is_shown_as_it_was_given() -> None:
    for text in ("http:/host/m", "ftp://host/m"):
        with pytest.raises(UsageError) as caught:
            parse_mirror(text)
        assert caught.value.what == f"--mirror cannot be {text}"


def test_an_index_that_is_no_file_is_replaced(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_bytes(render_index([]))
    for place in (tmp_path / "link", tmp_path / "folder"):
        place.mkdir()
        if place.name == "link":
            (place / INDEX).symlink_to(elsewhere)
        else:
            (place / INDEX / "x").mkdir(parents=True)
            (place / INDEX / "x/y").touch()
        mirror = Mirror.open(place, create=True)
        mirror.add_set(MirrorSet("one", ("3.11",), (), ()))
        assert (place / INDEX).is_file()
        assert not (place / INDEX).is_symlink()
        assert mirror.check() == []
    assert elsewhere.read_bytes() == render_index([])


def test_what_goes_wrong_while_a_mirror_is_written_is_what_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirror = Mirror.open(tmp_path / "mirror", create=True)

    def full(folders: object) -> None:
        raise NoSpaceError("the disk is full")

    monkeypatch.setattr("xpubuild.supply.mirror.store.sync_filesystems", full)
    with pytest.raises(InterruptedByUserError), mirror.writing():
        raise InterruptedByUserError("stopped")
    with pytest.raises(NoSpaceError), mirror.writing():
        pass


def test_the_copy_of_a_url_is_that_of_any_user() -> None:
    names = {parse_mirror(text).folder_name for text in (  # type: ignore[union-attr]
        "https://h/m", "https://me:word@h:443/m/", "HTTPS://H/m")}  # fmt: skip
    assert len(names) == 1
    assert names.pop().startswith("h-")
    others = {parse_mirror(text).folder_name for text in (  # type: ignore[union-attr]
        "https://h/m", "http://h/m", "https://h/M", "https://h:1/m")}  # fmt: skip
    assert len(others) == 4


def _entries(*names: str) -> list[Entry]:
    return [Entry("set", name, (FileRecord(f"sets/{name}.json", 1, _HASH),)) for name in names]


def test_an_index_is_read_as_it_was_written() -> None:
    one, two = _entries("one", "two")
    data = render_index([two, one])
    assert read_index(data) == ({"set-one": one, "set-two": two}, "")
    assert data == render_index([one, two])
    assert json.loads(data)["entries"][1]["name"] == "two"
    assert read_index(render_index([])) == ({}, "")


def test_damage_of_an_index_costs_the_entry_of_its_line() -> None:
    known = {entry.id: entry for entry in _entries("one", "two", "three")}
    data = render_index(known.values())
    for number in range(len(data)):
        for other in (data[:number] + bytes([data[number] ^ 1]) + data[number + 1 :], data[:number]):
            found, why = read_index(other)
            assert why, number
            assert found.items() <= known.items()
            assert len(found) >= 1 or len(other) < len(data)
    lines = data.split(b"\n")
    found, why = read_index(b"\n".join((*lines[:2], *lines[3:])))
    assert (len(found), bool(why)) == (2, True)


def test_the_sets_of_a_recipe_are_not_those_of_its_neighbour() -> None:
    names = [f"set-demo-{'0' * 16}", f"set-demo-2-{'0' * 16}", "git-demo", f"set-2.8-{'a' * 16}", "set-2x8-"]
    assert set_ids(names, "demo") == names[:1]
    assert set_ids(names, "2.8") == names[3:4]
    assert set_ids(names, "d.mo") == []


def _filled(path: Path) -> Mirror:
    mirror = Mirror.open(path, create=True)
    for word in ("one", "two"):
        source = path.parent / f"{word}-1.0-py3-none-any.whl"
        source.write_bytes(word.encode())
        digest = hashlib.sha256(word.encode()).hexdigest()
        mirror.add_file(source, sha256=digest, name=source.name, kind="wheel")
    return mirror


def test_a_mirror_keeps_its_index(tmp_path: Path) -> None:
    mirror = _filled(tmp_path / "m")
    index = mirror.path / "index.json"
    found, why = read_index(index.read_bytes())
    assert (sorted(entry.name for entry in found.values()), why) == (
        ["one-1.0-py3-none-any.whl", "two-1.0-py3-none-any.whl"],
        "",
    )
    before = index.stat().st_mtime_ns, index.read_bytes()
    with mirror.writing():
        pass
    assert (index.stat().st_mtime_ns, index.read_bytes()) == before
    index.unlink()
    assert {item.path for item in mirror.check()} == {"index.json", *_places(found), "wheels.html"}
    assert mirror.check(only=[]) == []
    index.write_bytes(before[1])
    assert mirror.check() == []


def _places(entries: Mapping[str, Entry]) -> set[str]:
    return {entry.folder for entry in entries.values()}


def test_what_an_index_lost_is_named_and_the_rest_stays(tmp_path: Path) -> None:
    mirror = _filled(tmp_path / "m")
    index = mirror.path / "index.json"
    index.write_bytes(index.read_bytes().replace(b"one-1.0", b"one-1.1"))
    lost = f"files/{hashlib.sha256(b'one').hexdigest()}"
    assert {item.path for item in mirror.check()} == {"index.json", "wheels.html", lost}
    with pytest.raises(SourceIntegrityError, match=r"index\.json"):
        mirror.files()


def test_a_page_that_a_killed_writer_left_behind_is_made_by_the_next(tmp_path: Path) -> None:
    mirror = _filled(tmp_path / "m")
    page = mirror.path / "wheels.html"
    links = page.read_bytes()
    page.write_bytes(links.replace(b"<a ", b"", 1))
    assert [item.path for item in mirror.check()] == ["wheels.html"]
    ready = mirror.path / ".commit-x"
    ready.mkdir()
    (ready / "index.json").write_bytes((mirror.path / "index.json").read_bytes())
    assert mirror.check() == []
    with mirror.writing():
        assert page.read_bytes() == links
    assert mirror.check() == []
