"""Mirrors that 0.1 and 0.2 wrote: read as they are, damage named, and in today's form after any writer."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_served import copy, serve
from integration.mirror_world import World, as_0_2_wrote_it, content, world
from support.indexes import PackageIndex

from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.mirror.store import Mirror

_DATA = Path(__file__).parent.parent / "data" / "v0.1"


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with PackageIndex() as running:
        yield running


@pytest.fixture
def of_0_1(tmp_path: Path) -> Path:
    subprocess.run(["tar", "-xzf", str(_DATA / "mirror.tar.gz")], cwd=tmp_path, check=True)
    return tmp_path / "mirror"


def test_a_mirror_of_0_2_is_read_as_it_is_and_written_in_todays_form(here: World, tmp_path: Path) -> None:
    mirror = here.filled(tmp_path / "mirror")
    today, entries = content(mirror.path), mirror.entries()
    as_0_2_wrote_it(mirror.path)
    before = content(mirror.path)
    assert mirror.check() == []
    assert mirror.entries() == entries
    assert here.fetch(mirror.path, offline=True).run()["status"] == "ok"
    assert content(mirror.path) == before
    with mirror.writing():
        assert mirror.entries() == entries
    assert content(mirror.path) == today
    assert mirror.check() == []


@pytest.mark.parametrize("path", ["manifest/git-*-top-*", "manifest/file-*", "manifest/set-*", "index.json"])
def test_damage_of_a_mirror_of_0_2_is_named_and_repaired(here: World, tmp_path: Path, path: str) -> None:
    mirror = here.filled(tmp_path / "mirror")
    today = content(mirror.path)
    as_0_2_wrote_it(mirror.path)
    file = next(mirror.path.glob(path))
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))
    named = file.relative_to(mirror.path).as_posix()
    assert named in {item.path for item in mirror.check()}
    with pytest.raises(SourceIntegrityError):
        here.fetch(mirror.path, offline=True).run()
    here.fetch(mirror.path).run()
    assert mirror.check() == []
    assert content(mirror.path).keys() == today.keys()


@pytest.mark.parametrize("recipe", ["tree", "packages", None])
def test_a_mirror_of_0_1_is_served(of_0_1: Path, index: PackageIndex, tmp_path: Path, recipe: str) -> None:
    url = serve(index, of_0_1)
    copy(url, tmp_path / "copy", recipe)
    found = Mirror.open(tmp_path / "copy")
    assert found.check() == []
    theirs = Mirror.open(of_0_1).entries()
    assert found.entries().items() <= theirs.items()
    assert {one.recipe for one in found.sets()} == ({recipe} if recipe else {"tree", "packages"})
    entry = next(path for path in index.files if path.startswith("manifest/git-"))
    index.files[entry] = index.files[entry].replace(b"refs", b"rafs")
    with pytest.raises(SourceIntegrityError, match="manifest/git-"):
        copy(url, tmp_path / "other", recipe)
    del index.files[entry]
    with pytest.raises(FetchError, match="manifest/git-"):
        copy(url, tmp_path / "other", recipe)
