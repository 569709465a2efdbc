"""A depot as a folder: what is taken, what is refused, what readers may do."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, InterruptedByUserError, SourceIntegrityError, UsageError
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
from xpubuild.supply.depot.examine import check_depot
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Location, parse_place

NAME = "demo-1.0-py3-none-any.whl"


def add(depot: Depot, name: str = NAME, data: bytes = b"a wheel") -> Entry:
    source = depot.path.parent / "downloads" / name
    source.parent.mkdir(exist_ok=True)
    source.write_bytes(data)
    with depot.writing():
        entry = replace(depot.add_file(source), url="https://i.example/x")
        before = depot.index()
        depot.publish(index_of((*before.entries.values(), entry), before.sets.values()))
    return entry


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return Depot.open(tmp_path / "mirror", create=True)


def test_a_file_is_kept_by_its_hash_and_listed(depot: Depot) -> None:
    entry = add(depot)
    assert add(depot) == entry
    assert depot.file(entry) == depot.path / "files" / entry.sha256 / NAME
    assert depot.files() == [entry]
    assert f'files/{entry.sha256}/{NAME}#sha256={entry.sha256}"' in (depot.path / "wheels.html").read_text()
    assert check_depot(depot.path) == []


def test_a_damaged_file_is_not_given_and_is_replaced(depot: Depot) -> None:
    entry = add(depot)
    place = depot.file(entry)
    for act in (lambda: place.write_bytes(b"a wheal"), place.unlink):
        act()
        with pytest.raises(SourceIntegrityError, match=NAME):
            depot.file(entry)
        add(depot)
        assert depot.file(entry).read_bytes() == b"a wheel"


def test_a_folder_of_somebody_is_refused_and_an_empty_one_is_not(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("x")
    with pytest.raises(UsageError, match="is not a mirror"):
        Depot.open(theirs, create=True)
    with pytest.raises(UsageError, match="is not a folder"):
        Depot.open(theirs / "thesis.tex", create=True)
    assert [path.name for path in theirs.iterdir()] == ["thesis.tex"]
    with pytest.raises(FetchError, match="is not a mirror"):
        Depot.open(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(FetchError, match="is not a mirror"):
        Depot.open(tmp_path / "empty")
    assert Depot.open(tmp_path / "empty", create=True).files() == []


@pytest.mark.parametrize("damaged", [False, True])
def test_a_mirror_of_an_earlier_version_is_refused_by_name(depot: Depot, damaged: bool) -> None:
    place = depot.path
    (place / "mirror.json").write_text("{}")
    with pytest.raises(UsageError, match="mirror of another version"):
        Depot.open(place, create=not damaged, damaged=damaged)
    (place / "mirror.json").unlink()
    (place / "index.json").write_text('{"schema":"xpubuild.mirror-index/2","digest":"x","entries":[]}')
    with pytest.raises(UsageError, match="mirror of another version"):
        check_depot(place, repair=damaged)
    assert sorted(path.name for path in place.iterdir()) == ["index.json"]


def test_a_lost_index_is_made_from_what_is_there(depot: Depot) -> None:
    wheel, other = add(depot), add(depot, "other-1.0.tar.gz", b"other")
    archive = replace(add(depot, "llvm.tar.gz", b"llvm"), kind="archive", dist="triton.llvm", version="")
    needed = DepotSet("demo", ("3.11",), (), (wheel, archive))
    whole = index_of([wheel, other, archive], [needed])
    depot.publish(whole)
    (depot.path / "index.json").unlink()
    with pytest.raises(SourceIntegrityError, match=r"index\.json"):
        Depot.open(depot.path)
    assert [item.path for item in check_depot(depot.path)] == ["index.json"]
    assert check_depot(depot.path, repair=True) == []
    # What a set needs keeps its origin; of the other the name alone is known.
    found = Depot.open(depot.path).index()
    assert found == index_of([wheel, replace(other, url=""), archive], [needed])


# ---- The documents of a depot: they come back as they were, and what somebody crafted is refused


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
    assert (FILE.kind, FILE.dist, FILE.version, FILE.id) == ("wheel", "x", "1.0", f"files/{A}")
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
        (replace(GIT, files=(FileRecord("git/x.git/hooks/x", 1, A),)), "is not a file of git/x.git"),
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


# ---- What --mirror and --store name: a folder, or a URL; never a secret in what is shown


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
    found = parse_place(text, "--mirror")
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
    assert parse_place(text, "--mirror") == Path(path).absolute()


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
        parse_place(text, "--mirror")
    assert caught.value.exit_code == 2
    assert "secret" not in f"{caught.value.to_json()}"


def test_an_interrupt_while_a_depot_is_checked_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancel = Cancel()

    def records(_: FolderStore) -> Iterator[tuple[Path, str]]:
        cancel.set("Ctrl-C")
        yield tmp_path / "a", "damaged"

    monkeypatch.setattr(FolderStore, "records", records)
    with pytest.raises(InterruptedByUserError):
        check_depot(tmp_path, cancel=cancel)
