"""A conda prefix: its records made as the lock has them, what differs from the lock, and how it is linked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from xpubuild.errors import RecipeError, XpuBuildError
from xpubuild.supply.conda import archives
from xpubuild.supply.conda.archives import Supply, bring, fetch, in_folder
from xpubuild.supply.conda.environment import (
    Installed,
    installed,
    mend_records,
    problems,
    read_lock_file,
    tidy,
)
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage


def package(
    name: str, data: bytes = b"data", base: str = "https://host.invalid/forge", **more: Any
) -> CondaPackage:
    filename = f"{name}-1.0-h0.conda"
    made = CondaPackage(
        name, "1.0", "h0", filename, f"{base}/linux-64/{filename}", hashlib.sha256(data).hexdigest(),
        hashlib.md5(data, usedforsecurity=False).hexdigest(),
    )  # fmt: skip
    return replace(made, **more)


CMAKE, PYTHON = package("cmake"), package("python")


def note(env: Path, package: CondaPackage, **changes: Any) -> Path:
    path = env / "conda-meta" / f"{package.name}-1.0-h0.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "name": package.name,
        "version": package.version,
        "sha256": package.sha256,
        "files": [],
        **changes,
    }
    path.write_text(json.dumps(record))
    return path


def test_records_are_read_and_damaged_ones_left_out(tmp_path: Path) -> None:
    note(tmp_path, CMAKE, files=["bin/cmake"])
    note(tmp_path, PYTHON, version=3, files=None, sha256="x")
    for name, text in {"a": "{", "b": "[]", "c": '{"name": 3}'}.items():
        (tmp_path / "conda-meta" / f"{name}.json").write_text(text)
    assert installed(tmp_path) == {
        "cmake": Installed("cmake", "1.0", CMAKE.sha256, ("bin/cmake",)),
        "python": Installed("python", "3", "x", ()),
    }


def test_records_get_the_addresses_of_the_lock(tmp_path: Path) -> None:
    incidental = ("extracted_package_dir", "indexed_timestamp", "link", "requested_specs", "requested_spec")
    path = note(
        tmp_path, CMAKE, fn="x", url="file:///x", channel="c", md5="0", **dict.fromkeys(incidental, 1)
    )
    other = note(tmp_path, PYTHON, version="2.0", url="file:///x")
    (tmp_path / "conda-meta" / "history").write_text("a time")
    tidy(tmp_path, [CMAKE, PYTHON])
    assert path.read_text() == json.dumps({
        "channel": "https://host.invalid/forge/", "files": [], "fn": CMAKE.filename, "md5": CMAKE.md5,
        "name": "cmake", "requested_specs": [], "sha256": CMAKE.sha256, "url": CMAKE.url, "version": "1.0",
    }, indent=1) + "\n"  # fmt: skip
    assert json.loads(other.read_text())["url"] == "file:///x"
    assert (tmp_path / "conda-meta" / "history").read_bytes() == b""


def test_what_differs_from_the_lock_is_told(tmp_path: Path) -> None:
    assert problems(tmp_path, [CMAKE]) == ["cmake 1.0 is not installed"]
    files = ["bin/cmake", "lib/python3.12/site-packages/x.py", "a.pyc", "share/a", "link"]
    note(tmp_path, CMAKE, files=files)
    (tmp_path / "link").symlink_to("nowhere")
    assert problems(tmp_path, [CMAKE]) == ["cmake 1.0 lacks 2 files: bin/cmake"]
    for name in ("bin/cmake", "share/a"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("")
    assert problems(tmp_path, [CMAKE]) == []
    assert problems(tmp_path, []) == ["cmake is installed, but not in the lock"]
    note(tmp_path, PYTHON, sha256="")
    note(tmp_path, CMAKE, sha256="0123456789abcdef")
    assert problems(tmp_path, [CMAKE, PYTHON]) == [
        "cmake is 1.0 with sha256 0123456789ab", "python is 1.0 with sha256 unknown",
    ]  # fmt: skip


def test_record_files_become_true(tmp_path: Path) -> None:
    info = tmp_path / "lib" / "python3.12" / "site-packages" / "demo-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "INSTALLER").write_text("conda")
    (info / "direct_url.json").write_text("{}")
    name = info.name
    record = info / "RECORD"
    record.write_text(
        f'{name}/INSTALLER,sha256=old,4\n\n{name}/REQUESTED,,\n{name}/direct_url.json,sha256=x,2\n"a,b",,\n'
        "gone/INSTALLER,sha256=y,1\n"
    )
    mend_records(tmp_path)
    mended = (
        f"{name}/INSTALLER,sha256=TyNWcs9h7j0B3oAtLMdTAsKwE5uzVJD3A-Hcyy8q5sM,5\n{name}/direct_url.json,sha256=x,2\n"
        '"a,b",,\ngone/INSTALLER,sha256=y,1\n'
    )
    assert record.read_text().splitlines()[1:] == mended.splitlines()[1:]
    assert record.read_text().splitlines()[0].endswith(",5")
    before = record.stat().st_ino
    mend_records(tmp_path)
    assert record.stat().st_ino == before, "a file that is right is left alone"


def test_archives_come_from_a_mirror_the_cache_or_a_folder(tmp_path: Path) -> None:
    mirror, cache, channel = tmp_path / "mirror", tmp_path / "cache", tmp_path / "chan nel"
    packages = [package(name, name.encode(), channel.as_uri()) for name in "abcdefg"]
    a, b, c, d, e, f, g = packages
    for path in (
        mirror / a.sha256 / a.filename, mirror / b.sha256 / b.filename, mirror / "linux-64" / c.filename,
        mirror / d.filename, cache / e.sha256 / e.filename, channel / "linux-64" / f.filename,
        cache / g.sha256 / g.filename, channel / "linux-64" / g.filename,
    ):  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            next(
                item.name.encode()
                for item in packages
                if item.sha256 in str(path) or item.filename in str(path)
            )
        )
    (cache / g.sha256 / g.filename).write_bytes(b"damaged")
    supply = Supply(cache, in_folder(mirror), offline=True)
    bring(packages, tmp_path / "into", supply, report=lambda _: None)
    found = {path.name: path.read_bytes() for path in (tmp_path / "into" / "linux-64").iterdir()}
    assert found == {item.filename: item.name.encode() for item in packages}


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


def test_archives_that_cannot_be_had(tmp_path: Path) -> None:
    here = package("here", b"right", tmp_path.as_uri())
    gone = package("gone", base=tmp_path.as_uri())
    away = [package("away"), package("away2")]
    supply, into = Supply(tmp_path / "cache", offline=True), tmp_path / "into"
    refuses(lambda: bring(away, into, supply, report=lambda _: None))
    refuses(lambda: bring(away[:1], into, supply, report=lambda _: None))
    refuses(lambda: fetch(gone, into))
    (tmp_path / "linux-64").mkdir()
    (tmp_path / "linux-64" / here.filename).write_bytes(b"right")
    assert fetch(here, into).read_bytes() == b"right"
    assert fetch(here, into) == into / here.sha256 / here.filename
    (tmp_path / "linux-64" / here.filename).write_bytes(b"wrong")
    refuses(lambda: fetch(here, tmp_path / "other"))
    assert list((tmp_path / "other" / here.sha256).iterdir()) == []
    said: list[str] = []
    refuses(lambda: bring([gone], into, Supply(tmp_path / "cache"), report=said.append))
    assert said == [f"fetching {gone.filename}"]
    assert archives.missing_packages([here, gone], Supply(tmp_path / "cache")) == [gone]


LOCK = CondaLock((CMAKE, PYTHON), ("conda-forge",), "0" * 64)


def test_the_python_and_the_digest_of_a_lock(tmp_path: Path) -> None:
    assert LOCK.python == "1.0"
    refuses(lambda: replace(LOCK, packages=(CMAKE,)).python)
    assert LOCK.digest == replace(LOCK, packages=(PYTHON, CMAKE)).digest
    moved = replace(CMAKE, url=f"file:///elsewhere/{CMAKE.filename}")
    assert LOCK.digest == replace(LOCK, packages=(moved, PYTHON)).digest
    assert (
        LOCK.digest
        == hashlib.sha256(
            f"{CMAKE.filename} {CMAKE.sha256}\n{PYTHON.filename} {PYTHON.sha256}".encode()
        ).hexdigest()
    )
    for path in (tmp_path / "gone.yml", tmp_path):
        with pytest.raises(RecipeError):
            read_lock_file(path)
    (tmp_path / "bad.yml").write_text("[]")
    with pytest.raises(RecipeError):
        read_lock_file(tmp_path / "bad.yml")
