"""One folder as mirror and as store: filled, listed, checked, served, and the user's own cache checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_served import copy, serve
from integration.mirror_world import World, world
from integration.test_store_served import named
from support.cli import Xpubuild
from support.documents import check
from support.indexes import PackageIndex
from unit.test_store_folder import DIST, FILE, ME, record_of

from xpubuild.supply.depot.examine import check_depot, damages
from xpubuild.supply.depot.folder import Depot
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Trust
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git

RECORD = record_of(b"wheel", a=1)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[World]:
    with world(tmp_path) as made:
        yield made


@pytest.fixture(params=["mirror first", "store first"])
def both(request: pytest.FixtureRequest, here: World, tmp_path: Path) -> FolderStore:
    """Return a folder that was filled as a mirror and as a store, whichever came first."""
    store = FolderStore(tmp_path / "both", Trust(frozenset(), ME))
    (tmp_path / FILE).write_bytes(b"wheel")
    if request.param == "mirror first":
        here.filled(store.root)
    store.root.mkdir(exist_ok=True)
    assert store.keep(RECORD, tmp_path / FILE) == ""
    if request.param == "store first":
        here.filled(store.root)
    return store


def test_a_folder_is_a_mirror_and_a_store(
    both: FolderStore, here: World, tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert (both.why_not(), damages(Depot.open(both.root))) == ("", [])
    assert here.fetch(both.root, offline=True).run()["status"] == "ok"
    assert both.look(DIST, RECORD.identity) == RECORD
    words = ("--store", str(both.root))
    _, size = check(xpubuild.json("store", "size", *words), "store-size")["stores"]
    assert {name: size[name] for name in ("wheels", "repositories", "files", "sets")} == {
        "wheels": 1, "repositories": 4, "files": 3, "sets": 1,
    }  # fmt: skip
    assert xpubuild.json("check", str(both.root))["stores"][0]["damaged"] == []
    pack = next(both.root.glob("git/*/objects/pack/*.pack"))
    pack.chmod(0o644)
    for path in (pack, both.root / RECORD.wheel_path):
        path.write_bytes(path.read_bytes()[:-1] + b"\0")
    result = xpubuild("check", str(both.root), "--json")
    found = {item["path"] for item in result.document()["stores"][0]["damaged"]}
    assert (result.status, found) == (31, {pack.relative_to(both.root).as_posix(), RECORD.path})


def test_one_url_serves_both(both: FolderStore, here: World, tmp_path: Path) -> None:
    with PackageIndex() as index:
        url = serve(index, both.root)
        copy(url, tmp_path / "copy")
        assert damages(Depot.open(tmp_path / "copy")) == []
        assert named(url).look(DIST, RECORD.identity) == RECORD
        assert named(url).bring(RECORD, tmp_path / "copy").read_bytes() == b"wheel"


def test_the_repositories_of_the_users_own_cache_are_checked(here: World, tmp_path: Path) -> None:
    cache = RepositoryStore(tmp_path / "cache", Git.open())
    cache.mirror(here.server.url("ops.git"), here.commits["ops"]).ensure(
        here.commits["ops"], report=lambda _: None
    )
    own = FolderStore(tmp_path / "cache", Trust(frozenset(), ME), own=True)
    assert check_depot(own.root) == []
    pack = next(own.root.glob("git/*/objects/pack/*.pack"))
    pack.chmod(0o644)
    pack.write_bytes(pack.read_bytes()[:-30])
    (found,) = check_depot(own.root)
    assert found.path == f"git/{pack.parents[2].name}"
