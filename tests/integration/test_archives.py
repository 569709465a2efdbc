"""Archives that a build would download itself: from recipe to mirror, lock, offline install and script."""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from integration.gitserver import Upstream
from support.cli import Xpubuild
from support.documents import check
from support.like_triton import BACKEND, JSON, LLVM, PYPROJECT, RECIPE, llvm_archive, write_archives

from xpubuild.install.lock_file import read_lock
from xpubuild.supply.depot.entries import index_of
from xpubuild.supply.depot.examine import damages
from xpubuild.supply.depot.folder import Depot

_PINNED = "1234567812345678123456781234567812345678"


class _Handler(SimpleHTTPRequestHandler):
    asked: list[str]

    def __init__(self, asked: list[str], *args: Any, **options: Any) -> None:
        self.asked = asked
        super().__init__(*args, **options)

    def do_GET(self) -> None:
        self.asked.append(self.path.lstrip("/"))
        super().do_GET()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the library's
        """Say nothing."""


@dataclass
class Site:
    """A recipe, what it is served from, and a home folder in which the build must leave nothing."""

    folder: Path
    asked: list[str] = field(default_factory=list)

    @property
    def recipe(self) -> str:
        return str(self.folder / "like.yaml")

    @property
    def served(self) -> Path:
        return self.folder / "www"

    @property
    def mirror(self) -> str:
        return str(self.folder / "mirror")

    @property
    def lock(self) -> str:
        return str(self.folder / "like.lock.yaml")

    @property
    def workspace(self) -> Path:
        return self.folder / "work space"

    def seen(self) -> dict[str, str]:
        """Return what the build found."""
        with zipfile.ZipFile(self.workspace / "wheels" / "like_triton-1.0-py3-none-any.whl") as wheel:
            found = json.loads(wheel.read("like_triton.json"))
            assert isinstance(found, dict)
            return found


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """Serve the archives over http and the repositories as folders, and write the recipe."""
    made = Site(tmp_path)
    write_archives(made.served)
    repositories = tmp_path / "upstream"
    translator, headers, tree = (
        Upstream.make(repositories / f"{name}.git") for name in ("translator", "headers", "tree")
    )
    pins = {"headers": headers.commit({"spirv.hpp": "spirv\n"})}
    headers.commit({"spirv.hpp": "later\n"}, parent=pins["headers"])
    pins["translator"] = translator.commit({"headers.conf": f"{pins['headers']}\n"})
    url = {"TRANSLATOR": translator.path.as_uri(), "HEADERS": headers.path.as_uri()}
    commit = tree.commit(
        {
            "pyproject.toml": PYPROJECT,
            "backend.py": functools.reduce(
                lambda text, key: text.replace(f"@{key}@", url[key]), url, BACKEND
            ),
            "translator.conf": f"{pins['translator']}\n",
            "llvm-hash.txt": f"{_PINNED}\n",
        }
    )
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name.lower()))
    handler = functools.partial(_Handler, made.asked, directory=str(made.served))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    text = RECIPE.format(
        tree=tree.path.as_uri(), commit=commit, translator=url["TRANSLATOR"], headers=url["HEADERS"],
        headers_commit=pins["headers"], served=f"http://127.0.0.1:{server.server_port}", llvm=LLVM,
        sha256=hashlib.sha256((made.served / JSON).read_bytes()).hexdigest(),
    )  # fmt: skip
    (tmp_path / "like.yaml").write_text(text)
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def install(xpubuild: Xpubuild, site: Site, *words: str, until: str = "like.wheel") -> Any:
    """Install as far as the archives or the wheel."""
    return xpubuild("install", site.recipe, "--workspace", str(site.workspace), "--until", until, *words)


def test_a_mirror_has_all_that_the_build_asks_for(site: Site, xpubuild: Xpubuild) -> None:
    document = check(xpubuild.json("fetch", site.recipe, "--mirror", site.mirror), "fetch")
    archives = {item["dist"]: item for item in document["files"] if item["kind"] == "archive"}
    assert {name: item["name"] for name, item in archives.items()} == {
        "like.llvm": f"{LLVM}.tar.gz", "like.json": JSON
    }  # fmt: skip
    assert xpubuild.json("fetch", site.recipe, "--mirror", site.mirror)["summary"]["new_files"] == 0
    assert sorted(site.asked) == sorted([f"{LLVM}.tar.gz", JSON])
    xpubuild.ok("lock", site.recipe, "--mirror", site.mirror, "--offline", "-o", site.lock)
    locked = read_lock(Path(site.lock)).archives
    assert {key: item.hash_from for key, item in locked.items()} == {
        "like.llvm": "first download", "like.json": "upstream"
    }  # fmt: skip
    assert locked["like.llvm"].sha256 == hashlib.sha256(llvm_archive()).hexdigest()
    assert locked["like.llvm"].size == len(llvm_archive())

    shutil.rmtree(site.folder / "upstream")
    shutil.rmtree(site.folder / "cache", ignore_errors=True)
    site.asked.clear()
    answer = install(xpubuild, site, "--lock", site.lock, "--mirror", site.mirror, "--offline")
    assert answer.status == 0, answer.err
    assert site.asked == []
    assert site.seen() == {
        "llvm": "the first LLVM\n", "json": "json\n", "headers": "spirv\n", "tool": "runs\n",
        "flags": "-D_GLIBCXX_USE_CXX11_ABI=1",
    }  # fmt: skip
    assert not (site.folder / "home" / ".triton").exists()
    receipt = json.loads((site.workspace / "receipt.json").read_text())
    (evidence,) = [item["evidence"] for item in receipt["steps"] if item["id"] == "like.archives"]
    assert {one["name"] for item in evidence for one in item.get("archives", ())} == {"llvm", "json"}


def test_what_is_lost_or_changed_is_noticed(site: Site, xpubuild: Xpubuild) -> None:
    assert install(xpubuild, site, until="like.archives").status == 0
    place = site.workspace / "build" / "archives" / "like"
    (place / "llvm" / LLVM / "bin" / "tool").write_text("#!/bin/sh\necho another\n")
    assert install(xpubuild, site, until="like.archives").status == 0
    assert "runs" in (place / "llvm" / LLVM / "bin" / "tool").read_text()
    assert site.asked.count(f"{LLVM}.tar.gz") == 1, "the cache has it"

    xpubuild.ok("lock", site.recipe, "-o", site.lock)
    (site.served / f"{LLVM}.tar.gz").write_bytes(llvm_archive("another LLVM\n"))
    kept = next(path for path in (site.folder / "cache").rglob(f"{LLVM}.tar.gz"))
    kept.unlink()
    shutil.rmtree(site.workspace)
    answer = install(xpubuild, site, until="like.archives")
    assert answer.status == 31, answer.err
    assert "is another file than expected" in answer.err
    assert str(kept.parent) in answer.err
    shutil.rmtree(kept.parent)
    answer = install(xpubuild, site, "--lock", site.lock, until="like.archives")
    assert answer.status == 31, answer.err
    assert "the lock does not match: archives." in answer.err


def test_an_entry_of_the_mirror_that_was_lost_comes_back_whole(site: Site, xpubuild: Xpubuild) -> None:
    xpubuild.ok("fetch", site.recipe, "--mirror", site.mirror)
    mirror = Depot.open(Path(site.mirror))
    (llvm,) = [entry for entry in mirror.files() if entry.name.startswith("llvm")]
    before = mirror.index()
    mirror.publish(
        index_of((entry for entry in before.entries.values() if entry != llvm), before.sets.values())
    )
    xpubuild.ok("fetch", site.recipe, "--mirror", site.mirror)
    assert mirror.index().entries[llvm.id] == llvm
    assert damages(mirror) == []


def test_offline_without_an_archive_nothing_is_built(site: Site, xpubuild: Xpubuild) -> None:
    (site.served / JSON).rename(site.folder / JSON)
    answer = xpubuild("fetch", site.recipe, "--mirror", site.mirror)
    assert answer.status == 30
    assert JSON in answer.err
    (site.folder / JSON).rename(site.served / JSON)
    xpubuild.ok("fetch", site.recipe, "--mirror", site.mirror)
    mirror = Depot.open(Path(site.mirror))
    kept = [entry for entry in mirror.index().entries.values() if entry.name != JSON]
    mirror.publish(index_of(kept, []))
    shutil.rmtree(mirror.path / "sets")
    shutil.rmtree(site.folder / "cache", ignore_errors=True)
    answer = install(xpubuild, site, "--mirror", site.mirror, "--offline")
    assert answer.status == 30, answer.err
    assert f"the archive {JSON} is not in the mirror" in answer.err
    assert not (site.workspace / "env").exists()
