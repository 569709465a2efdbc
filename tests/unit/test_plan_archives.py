"""Archives that a build would download: found, kept by the first hash, unpacked and proved."""

from __future__ import annotations

import io
import json
import os
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.indexes import sha256

from xpubuild.errors import XpuBuildError
from xpubuild.supply.archives import (
    FIRST,
    Archive,
    Held,
    Supply,
    UnpackedProof,
    bring,
    files_below,
    look,
    provide,
    unpacked_stamp,
)
from xpubuild.supply.depot.entries import index_of
from xpubuild.supply.depot.folder import Depot


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


def tar(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def zipped(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


FILES = {"llvm/bin/clang": b"clang", "llvm/lib/größe": b"x"}


def asked(folder: Path, name: str, data: bytes, *, stated: bool = False, inside: str = ".") -> Archive:
    """Return an archive that is a file of this machine."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return Archive("llvm", (folder / name).as_uri(), sha256(data) if stated else None, inside)


def test_archives_are_unpacked_listed_and_proved(tmp_path: Path) -> None:
    first = asked(tmp_path / "srv", "l.tar.gz", tar(FILES), inside="llvm/bin")
    second = asked(tmp_path / "srv", "json.zip", zipped({"include/json.h": b"1"}), stated=True)
    second = Archive("json", second.url, second.sha256)
    into, said = tmp_path / "my build", list[str]()
    provide([first, second], into, Supply(tmp_path / "cache"), said.append)
    packed = (tmp_path / "srv" / "l.tar.gz").read_bytes()
    assert said[:2] == [
        f"fetching {first.url}", f"unpacking l.tar.gz, {len(packed)} bytes, sha256 {sha256(packed)}",
    ]  # fmt: skip
    proof = UnpackedProof(str(into))
    found = proof.check()
    assert found["files"] == 3
    assert found["archives"][0] == {
        "name": "llvm", "url": first.url, "sha256": sha256(packed), "size": len(packed),
        "hash_from": "first download",
    }  # fmt: skip
    assert found["archives"][1]["hash_from"] == "upstream"
    assert proof.key() == {"proof": "unpacked", "into": str(into)}
    assert proof.describe() == "the archives that the build would download are unpacked, with all their files"
    assert files_below(into / "llvm") == {"llvm/bin/clang": 5, "llvm/lib/größe": 1}
    stamp = unpacked_stamp(into)
    assert unpacked_stamp(into) == stamp
    os.utime(into / "llvm/llvm/bin/clang", (1, 1))
    assert unpacked_stamp(into) != stamp
    (into / "llvm/llvm/bin/clang").write_bytes(b"another")
    refuses(proof.check)
    (into / "llvm/llvm/bin/clang").unlink()
    refuses(proof.check)
    for text in ("{", "[]", "{}", '{"files": 3, "archives": []}'):
        (into / "archives.json").write_text(text)
        refuses(proof.check)
    (into / "archives.json").unlink()
    refuses(proof.check)


@pytest.mark.parametrize(
    ("name", "data", "inside"),
    [("a.tar.gz", b"nothing", "."), ("a.zip", b"nothing", "."), ("a.tgz", tar(FILES)[:-40], "."),
     ("a.zip", zipped(FILES), "gone"), ("a.tar.gz", tar(FILES), "llvm/bin/clang")],
    ids=range(5),
)  # fmt: skip
def test_one_that_cannot_be_unpacked(tmp_path: Path, name: str, data: bytes, inside: str) -> None:
    archive = asked(tmp_path / "srv", name, data, inside=inside)
    refuses(lambda: provide([archive], tmp_path / "into", Supply(tmp_path / "cache"), lambda _: None))


def test_the_first_file_of_a_url_is_the_one(tmp_path: Path) -> None:
    archive = asked(tmp_path / "srv", "l.tar.gz", b"first")
    supply, said = Supply(tmp_path / "cache"), list[str]()
    assert look(archive, supply) is None
    refuses(lambda: bring(archive, Supply(tmp_path / "cache", offline=True), said.append))
    held = bring(archive, supply, said.append)
    assert held == Held(held.path, sha256(b"first"), 5)
    assert json.loads((held.path.parent / FIRST).read_text()) == {
        "url": archive.url, "sha256": sha256(b"first"), "size": 5,
    }  # fmt: skip
    assert bring(archive, Supply(tmp_path / "cache", offline=True), said.append) == held
    held.path.write_bytes(b"damaged")
    assert look(archive, supply) is None
    assert bring(archive, supply, said.append) == held
    held.path.unlink()
    (tmp_path / "srv" / "l.tar.gz").write_bytes(b"other")
    refuses(lambda: bring(archive, supply, said.append))
    refuses(lambda: bring(Archive("llvm", archive.url, sha256(b"stated")), supply, said.append))
    for text in ("{", "[]", "{}", '{"sha256": 3}'):
        (held.path.parent / FIRST).write_text(text)
        assert look(archive, supply) is None
    assert said == [f"fetching {archive.url}"] * 4


def test_a_mirror_comes_first(tmp_path: Path) -> None:
    archive = asked(tmp_path / "srv", "l.tar.gz", b"first")
    (tmp_path / "l.tar.gz").write_bytes(b"of the mirror")
    mirror = Depot.open(tmp_path / "mirror", create=True)
    with mirror.writing():
        entry = replace(mirror.add_file(tmp_path / "l.tar.gz"), kind="archive", url=archive.url)
        mirror.publish(index_of([entry], ()))
    supply = Supply(tmp_path / "cache", mirror.path, offline=True)
    place = mirror.path / "files" / entry.sha256 / "l.tar.gz"
    assert bring(archive, supply, lambda _: None) == Held(place, sha256(b"of the mirror"), 13)


def test_one_that_cannot_be_fetched(tmp_path: Path) -> None:
    gone = Archive("llvm", (tmp_path / "gone.tar.gz").as_uri())
    refuses(lambda: bring(gone, Supply(tmp_path / "cache"), lambda _: None))
