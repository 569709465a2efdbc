"""Stores on servers: asked by name over http and ssh, believed by name, and not waited for."""

from __future__ import annotations

import os
import shutil
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from integration.store_world import DIST, INPUTS, a_store, keeper, plan_of, record_of
from support.indexes import PackageIndex
from support.ssh_server import SshServer, ssh_server

from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError
from xpubuild.install.store_work import push
from xpubuild.install.stores import opened
from xpubuild.supply.store.folder import FolderStore
from xpubuild.supply.store.identity import identity
from xpubuild.supply.store.keeping import Store, look_up
from xpubuild.supply.store.record import Record
from xpubuild.supply.store.served import ServedStore
from xpubuild.supply.store.trust import Trust, parse_store, trust_from

KEY = identity(INPUTS)


@pytest.fixture
def kept(tmp_path: Path) -> FolderStore:
    """A folder with one kept wheel."""
    store = a_store(tmp_path / "store")
    plan_of(tmp_path / "ws", keeper([]))
    (wheel,) = (tmp_path / "ws" / "ready").glob("*.whl")
    assert store.keep(record_of(wheel), wheel) == ""
    return store


def named(url: str) -> Store:
    """Return the store at a URL, named in the configuration."""
    store = opened(parse_store(url), trust_from({"XPUBUILD_TRUSTED_STORES": url}))
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
        found = look_up([store], DIST, KEY, INPUTS, 20.0)
        assert found.record is None
        assert "not xpubuild.kept-wheel/1" in found.unknown[store.name]


def test_a_server_that_is_not_named_is_not_asked(kept: FolderStore) -> None:
    with over_http(kept) as (_, url):
        store = opened(parse_store(url), Trust(frozenset(), frozenset()))
        assert store is not None
        why = look_up([store], DIST, KEY, INPUTS, 20.0).unknown[url]
        assert why.startswith("it is on a server, and no [trust] stores of your configuration names it")
        assert opened(parse_store(url), Trust(frozenset(), frozenset()), offline=True) is None


@pytest.mark.needs("ssh", "sshd")
def test_a_store_over_ssh(kept: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ssh_server(tmp_path / "sshd") as server:
        monkeypatch.setenv("GIT_SSH_COMMAND", server.command)
        store = named(server.url(kept.root))
        assert store.look(DIST, "0" * 64) is None
        (wheel,) = (kept.root / "wheels" / DIST).glob("*.whl")
        assert brought(store, tmp_path / "one") == wheel.read_bytes()


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("far") / "sshd") as running:
        yield running


@dataclass(frozen=True)
class Sent:
    """A kept wheel, and a store on a server that is still empty."""

    record: Record
    wheel: Path
    there: Path
    store: ServedStore

    def names(self) -> list[str]:
        return sorted(
            path.relative_to(self.there).as_posix() for path in self.there.rglob("*") if path.is_file()
        )


@pytest.fixture
def sent(far: SshServer, kept: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sent:
    monkeypatch.setenv("GIT_SSH_COMMAND", far.command)
    there = tmp_path / "it's $(there)"
    there.mkdir()
    record = kept.look(DIST, KEY)
    assert isinstance(record, Record)
    store = named(far.url(there))
    assert isinstance(store, ServedStore)
    return Sent(record, kept.root / record.wheel_path, there, store)


@pytest.mark.needs("ssh", "sshd")
def test_a_wheel_is_put_into_a_store_over_ssh_and_is_there_for_others(sent: Sent, tmp_path: Path) -> None:
    sent.there.chmod(0o3777)
    assert sent.store.keep(sent.record, sent.wheel) == ""
    assert sent.names() == sorted([sent.record.path, sent.record.wheel_path])
    assert stat.S_IMODE((sent.there / sent.record.wheel_path).parent.stat().st_mode) == 0o3777
    assert brought(sent.store, tmp_path / "one") == sent.wheel.read_bytes()
    before = (sent.there / sent.record.path).stat()
    assert sent.store.keep(sent.record, sent.wheel) == ""
    assert (sent.there / sent.record.path).stat() == before
    # A wheel that is gone comes back; the record stays.
    (sent.there / sent.record.wheel_path).unlink()
    assert sent.store.keep(sent.record, sent.wheel) == ""
    assert sent.names() == sorted([sent.record.path, sent.record.wheel_path])


@pytest.mark.needs("ssh", "sshd")
def test_push_copies_to_a_server_that_the_configuration_names(
    sent: Sent, kept: FolderStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    kept.root.rename(tmp_path / "cache" / "xpubuild")
    with pytest.raises(ToolchainError, match="is not used") as caught:
        push([sent.store.location], None)
    assert "trust.stores" in caught.value.fix
    monkeypatch.setenv("XPUBUILD_TRUSTED_STORES", sent.store.name)
    for _ in range(2):
        copies = push([sent.store.location], None)
        assert (copies.failure(), [row["kept"] for row in copies.rows]) == (None, [True])
    assert sent.names() == sorted([sent.record.path, sent.record.wheel_path])


@pytest.mark.needs("ssh", "sshd")
def test_nothing_on_the_far_side_is_overwritten(sent: Sent, tmp_path: Path) -> None:
    assert sent.store.keep(sent.record, sent.wheel) == ""
    other = tmp_path / "other.whl"
    other.write_bytes(sent.wheel.read_bytes() + b"\0")
    assert "another build of the same identity is there" in sent.store.keep(record_of(other), other)
    assert len(sent.names()) == 2
    (sent.there / sent.record.wheel_path).write_bytes(sent.wheel.read_bytes().swapcase())
    with pytest.raises(SourceIntegrityError, match="is damaged"):
        sent.store.keep(sent.record, sent.wheel)
    shutil.rmtree(sent.there / "wheels" / DIST)
    (sent.there / "wheels" / DIST).symlink_to(tmp_path)
    with pytest.raises(SourceIntegrityError, match="was not put") as caught:
        sent.store.keep(sent.record, sent.wheel)
    assert caught.value.why == "a folder of it is a link, and nothing is written through a link"
    assert not [path for path in tmp_path.iterdir() if path.suffix == ".json"]


@pytest.mark.needs("ssh", "sshd")
def test_a_wheel_that_does_not_arrive_whole_leaves_nothing(sent: Sent) -> None:
    longer = replace(sent.record, size=sent.record.size + 1)
    with pytest.raises(FetchError, match="was not put") as caught:
        sent.store.keep(longer, sent.wheel)
    assert caught.value.why == "it did not arrive whole"
    assert [path for path in sent.there.rglob("*") if not path.is_dir()] == []


@pytest.mark.needs("ssh", "sshd")
def test_a_store_over_ssh_that_is_not_there_is_not_made(sent: Sent) -> None:
    sent.there.rmdir()
    with pytest.raises(ToolchainError) as caught:
        sent.store.keep(sent.record, sent.wheel)
    assert str(sent.there) in caught.value.why
    assert "make the folder" in caught.value.fix
    assert not os.path.lexists(sent.there)


@dataclass(frozen=True)
class Silent:
    """A store on a server that takes the connection and never answers."""

    port: int
    name: str = "silent"

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
        found = look_up([silent], DIST, KEY, INPUTS, 0.2)
        assert (found.record, found.unknown) == (None, {"silent": "it did not answer in time"})
        # Where one's own store has it, no other is asked.
        found = look_up([silent, kept], DIST, KEY, INPUTS, 0.2)
        assert (found.store, found.unknown) == (kept, {})
