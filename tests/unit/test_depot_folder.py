"""A depot as a folder: what is taken, what is refused, what readers may do."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from xpubuild.errors import FetchError, SourceIntegrityError, UsageError
from xpubuild.supply.depot.entries import DepotSet, Entry, file_entry, index_of
from xpubuild.supply.depot.examine import check_depot
from xpubuild.supply.depot.folder import Depot

NAME = "demo-1.0-py3-none-any.whl"


def add(depot: Depot, name: str = NAME, data: bytes = b"a wheel", sha256: str = "") -> Entry:
    source = depot.path.parent / "downloads" / name
    source.parent.mkdir(exist_ok=True)
    source.write_bytes(data)
    entry = file_entry(name, sha256 or hashlib.sha256(data).hexdigest(), len(data), url="https://i.example/x")
    with depot.writing():
        depot.add_file(source, entry)
        before = depot.index()
        depot.publish(index_of((*before.entries.values(), entry), before.sets.values()))
    return entry


@pytest.fixture
def depot(tmp_path: Path) -> Depot:
    return Depot.open(tmp_path / "mirror", create=True)


def test_a_file_is_kept_by_its_hash_and_listed(depot: Depot) -> None:
    entry = add(depot)
    assert add(depot) == entry
    assert depot.file(entry.sha256) == depot.path / "files" / entry.sha256 / NAME
    assert depot.files() == [entry]
    assert f'files/{entry.sha256}/{NAME}#sha256={entry.sha256}"' in (depot.path / "wheels.html").read_text()
    assert check_depot(depot.path) == []


def test_another_content_is_refused_and_leaves_nothing(depot: Depot) -> None:
    with pytest.raises(SourceIntegrityError, match="is not the requested file"):
        add(depot, sha256="0" * 64)
    assert depot.files() == []
    assert sorted(path.name for path in depot.path.iterdir()) == [".lock", "index.json"]


def test_a_damaged_file_is_not_given_and_is_replaced(depot: Depot) -> None:
    entry = add(depot)
    place = depot.file(entry.sha256)
    for act in (lambda: place.write_bytes(b"a wheal"), place.unlink):
        act()
        with pytest.raises(SourceIntegrityError, match=NAME):
            depot.file(entry.sha256)
        add(depot)
        assert depot.file(entry.sha256).read_bytes() == b"a wheel"
    with pytest.raises(FetchError, match="has no file with the sha256") as caught:
        depot.file("1" * 64)
    assert caught.value.exit_code == 30


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
