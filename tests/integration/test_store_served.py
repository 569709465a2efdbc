"""Stores on servers: asked by name over http, believed by name, and not waited for."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.store_world import DIST, INPUTS, a_store, keeper, plan_of, record_of
from support.indexes import PackageIndex

from xpubuild.errors import SourceIntegrityError
from xpubuild.install.kept import stores_of
from xpubuild.supply.depot.keeping import Store, look_up
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Location, Trust, parse_place, trust_from
from xpubuild.supply.depot.record import Record, identity
from xpubuild.supply.depot.served import Served

KEY = identity(INPUTS)


@pytest.fixture
def kept(tmp_path: Path) -> FolderStore:
    """A folder with one kept wheel."""
    store = a_store(tmp_path / "store")
    plan_of(tmp_path / "ws", keeper([]))
    (wheel,) = (tmp_path / "ws" / "ready").glob("*.whl")
    assert store.keep(record_of(wheel), wheel) == ""
    return store


def location(url: str) -> Location:
    place = parse_place(url, "a store")
    assert isinstance(place, Location)
    return place


def named(url: str) -> Store:
    """Return the store at a URL, named in the configuration."""
    store = Served(location(url), trust_from({"XPUBUILD_TRUSTED_STORES": url}))
    assert store is not None
    return store


@contextmanager
def over_http(store: FolderStore) -> Iterator[tuple[PackageIndex, str]]:
    with PackageIndex() as index:
        for path in store.root.rglob("*.*"):
            index.files[path.relative_to(store.root).as_posix()] = path.read_bytes()
        yield index, f"{index.at()}/files"


def brought(store: Store, into: Path) -> bytes:
    record = store.look(DIST, KEY)
    assert isinstance(record, Record)
    into.mkdir()
    return store.bring(record, into).read_bytes()


def test_a_web_server_is_asked_for_two_files_and_an_altered_one_is_refused(
    kept: FolderStore, tmp_path: Path
) -> None:
    with over_http(kept) as (index, url):
        store = named(url)
        record = store.look(DIST, KEY)
        assert record == kept.look(DIST, KEY)
        assert store.look(DIST, "0" * 64) is None
        assert brought(store, tmp_path / "one") == (kept.root / record.wheel_path).read_bytes()
        index.files[record.wheel_path] = index.files[record.wheel_path].swapcase()
        with pytest.raises(SourceIntegrityError):
            brought(store, tmp_path / "two")
        assert list((tmp_path / "two").iterdir()) == []
        index.files[record.path] = b"{}"
        found = look_up([store], DIST, KEY, 20.0)
        assert found.record is None
        assert "not xpubuild.kept-wheel/1" in found.unknown[store.name]


def test_a_server_that_is_not_named_is_not_asked(kept: FolderStore) -> None:
    with over_http(kept) as (_, url):
        store = Served(location(url), Trust(frozenset(), frozenset()))
        assert store is not None
        why = look_up([store], DIST, KEY, 20.0).unknown[url]
        assert why.startswith("it is on a server, and no [trust] stores of your configuration names it")
        assert len(stores_of([location(url)], offline=False)) == 2
        assert len(stores_of([location(url)], offline=True)) == 1


@dataclass(frozen=True)
class Silent:
    """A store on a server that takes the connection and never answers."""

    port: int
    name: str = "silent"
    own: bool = False

    def why_not(self) -> str:
        return ""

    def look(self, dist: str, key: str) -> Record | None:
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.recv(1)
        return None

    def bring(self, record: Record, into: Path) -> Path:
        raise NotImplementedError


def test_a_store_that_never_answers_is_unknown_and_the_others_count(kept: FolderStore) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        silent = Silent(server.getsockname()[1])
        found = look_up([silent], DIST, KEY, 0.2)
        assert (found.record, found.unknown) == (None, {"silent": "it did not answer in time"})
        # Where one's own store has it, no other is asked.
        found = look_up([silent, kept], DIST, KEY, 0.2)
        assert (found.store, found.unknown) == (kept, {})
