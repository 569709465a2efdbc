"""A mirror behind a web server: copied, carried on with, found damaged, used while the server is away."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.mirror_served import copy, serve, without_locks
from integration.mirror_world import World, world
from support.indexes import PackageIndex, noise
from support.net import free_port

from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.supply.depot.entries import DepotSet, index_of
from xpubuild.supply.depot.examine import damages
from xpubuild.supply.depot.folder import Depot

_BIG = "big-1.0-py3-none-any.whl"


@pytest.fixture(autouse=True)
def no_proxy_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Path]]:
    """Fill a mirror with two recipes, one of them with a file that takes more than one request's patience."""
    root = tmp_path_factory.mktemp("served")
    with world(root) as here:
        mirror = here.filled(root / "mirror")
        big = root / _BIG
        big.write_bytes(noise(600_000))
        entry = mirror.add_file(big)
        needed = DepotSet("big", ("3.11",), (), (entry,))
        before = mirror.index()
        mirror.publish(index_of((*before.entries.values(), entry), (*before.sets.values(), needed)))
        yield here, mirror.path


@pytest.fixture
def mirror(filled: tuple[World, Path], tmp_path: Path) -> Path:
    """Return a copy of the mirror, to be damaged."""
    return Path(shutil.copytree(filled[1], tmp_path / "mirror"))


@pytest.fixture
def index() -> Iterator[PackageIndex]:
    with PackageIndex() as running:
        yield running


def test_a_copy_is_a_mirror_of_its_own(
    filled: tuple[World, Path], mirror: Path, index: PackageIndex, tmp_path: Path
) -> None:
    url = serve(index, mirror)
    heard = copy(url, tmp_path / "copy")
    assert heard.runs == 1
    assert heard.counted > 0
    found = Depot.open(tmp_path / "copy")
    assert damages(found) == []
    assert {needed.recipe for needed in found.index().sets.values()} == {"demo"}
    assert _BIG not in {entry.name for entry in found.files()}
    here = filled[0]
    here.asked()
    assert here.fetch(found.path, offline=True).run()["status"] == "ok"
    assert here.asked() == set()
    # Nothing has changed: the index, and no word.
    index.requests.clear()
    heard = copy(url, tmp_path / "copy")
    assert (heard.runs, heard.notices) == (0, [])
    assert sorted(index.asked()) == ["/files/index.json"]


def test_what_a_failed_copy_fetched_is_kept(mirror: Path, index: PackageIndex, tmp_path: Path) -> None:
    url = serve(index, mirror)
    pack = next(path for path in index.files if path.endswith(".pack"))
    data = index.files.pop(pack)
    with pytest.raises(FetchError, match=pack.rpartition("/")[2]) as caught:
        copy(url, tmp_path / "copy")
    assert caught.value.exit_code == 30
    assert not Depot.open(tmp_path / "copy").index().sets
    index.files[pack] = data
    index.requests.clear()
    heard = copy(url, tmp_path / "copy")
    again = index.asked("/git/") + index.asked("/files/files/")
    assert 0 < len(again) < len([path for path in index.files if path.startswith(("git/", "files/"))])
    assert heard.runs == 1
    assert damages(Depot.open(tmp_path / "copy")) == []


@pytest.mark.parametrize("kind", [".pack", "index.json"])
def test_a_flipped_byte_is_named_and_nothing_is_used(
    mirror: Path, index: PackageIndex, tmp_path: Path, kind: str
) -> None:
    url = serve(index, mirror)
    path = next(path for path in index.files if kind in path)
    data = bytearray(index.files[path])
    data[len(data) // 2] ^= 1
    index.files[path] = bytes(data)
    with pytest.raises(SourceIntegrityError) as caught:
        copy(url, tmp_path / "copy")
    assert caught.value.exit_code == 31
    assert path in caught.value.what
    assert not list((tmp_path / "copy").glob("sets/*"))


def test_a_mirror_that_changes_while_it_is_read(
    filled: tuple[World, Path], mirror: Path, index: PackageIndex, tmp_path: Path
) -> None:
    here = filled[0]
    url = serve(index, mirror)
    before = dict(index.files)
    here.filled(mirror, here.inputs(commit=here.commits["next"]))
    serve(index, mirror)
    # The index of before, and all else of after, as between two requests.
    new = {"index.json": index.files["index.json"]}
    index.files["index.json"] = before["index.json"]
    real, asked = index.files, 0

    class Changing(dict[str, bytes]):
        def get(self, name: str, default: bytes | None = None) -> bytes | None:  # type: ignore[override]
            nonlocal asked
            asked += 1
            if asked == 4:
                real.update(new)
            return real.get(name, default)

    index.files = Changing(real)
    copy(url, tmp_path / "copy")
    found = Depot.open(tmp_path / "copy")
    assert damages(found) == []
    assert here.fetch(found.path, here.inputs(), offline=True).run()["status"] == "ok"


@pytest.mark.parametrize("kind", [".pack", "sets/", "index.json"])
def test_a_damaged_copy_is_mended(mirror: Path, index: PackageIndex, tmp_path: Path, kind: str) -> None:
    url = serve(index, mirror)
    copy(url, tmp_path / "copy")
    before = without_locks(tmp_path / "copy")
    path = tmp_path / "copy" / next(path for path in before if kind in path)
    path.chmod(0o644)
    path.write_bytes(b"x")
    copy(url, tmp_path / "copy")
    assert without_locks(tmp_path / "copy") == before


def test_a_server_that_is_away_is_only_told_of(mirror: Path, index: PackageIndex, tmp_path: Path) -> None:
    url = serve(index, mirror)
    copy(url, tmp_path / "copy")
    index.faults.status["/files/index.json"] = [503] * 20
    heard = copy(url, tmp_path / "copy")
    assert ["warning" in text and url in text for text in heard.notices] == [True]
    for recipe in ("big", "unheard-of"):
        with pytest.raises(FetchError, match="cannot be reached"):
            copy(url, tmp_path / "copy", recipe)
    next((tmp_path / "copy").rglob("*.pack")).unlink()
    with pytest.raises(FetchError, match="cannot be reached"):
        copy(url, tmp_path / "copy")
    with pytest.raises(FetchError, match="cannot be reached"):
        copy(f"http://127.0.0.1:{free_port()}/mirror", tmp_path / "other")


def test_a_login_is_sent_and_never_shown(mirror: Path, tmp_path: Path) -> None:
    with PackageIndex(login="me:se cret-word") as index:
        url = serve(index, mirror)
        with pytest.raises(FetchError, match="was denied") as caught:
            copy(url, tmp_path / "copy")
        assert "netrc" in caught.value.fix
        copy(url.replace("://", "://me:se%20cret-word@"), tmp_path / "copy")
        # The first try asks for two files at once, and may have ended before both were asked for.
        logins = [item.login for item in index.requests]
        assert len(logins) > 4
        assert sum(login != "me:se cret-word" for login in logins) <= 2
        pack = next(path for path in index.files if path.endswith(_BIG))
        del index.files[pack]
        with pytest.raises(FetchError) as caught:
            copy(url.replace("://", "://me:se%20cret-word@"), tmp_path / "copy", "big")
    assert "cret-word" not in f"{caught.value.to_json()}"
    assert not [path for path, data in without_locks(tmp_path / "copy").items() if b"cret-word" in data]
