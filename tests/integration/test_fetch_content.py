"""What CMake's FetchContent fetches: refused where it is not listed, else handed over, also offline."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from integration.gitserver import Upstream
from integration.small_world import BACKEND, PYPROJECT, SmallWorld, small_world
from support.cli import Result
from support.indexes import PackageIndex

CMAKE = """
cmake_minimum_required(VERSION 3.21)
project(mine LANGUAGES NONE)
include(FetchContent)
FetchContent_Declare(lib GIT_REPOSITORY {repository} GIT_TAG {tag})
FetchContent_MakeAvailable(lib)
FetchContent_Declare(data URL {archive} DOWNLOAD_EXTRACT_TIMESTAMP ON)
FetchContent_MakeAvailable(data)
file(WRITE ${{CMAKE_BINARY_DIR}}/mine.py "found = '${{LIB}} ${{DATA}}'\\n")
"""
#: It calls CMake as a setup.py does that knows no options of a caller, and packs what CMake wrote.
CALLS = """import os, subprocess, tempfile
scratch = tempfile.mkdtemp()
subprocess.run(["cmake", "-S", ".", "-B", scratch], check=True)
(pathlib.Path("mine.py")).write_bytes((pathlib.Path(scratch) / "mine.py").read_bytes())
"""


def packed() -> bytes:
    out, text = io.BytesIO(), b"set(DATA archive PARENT_SCOPE)\n"
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("data-1.0/CMakeLists.txt")
        info.size = len(text)
        archive.addfile(info, io.BytesIO(text))
    return out.getvalue()


@dataclass
class World:
    """A small world whose second package is made by CMake, of a repository and of an archive."""

    small: SmallWorld
    files: PackageIndex
    lib: Upstream
    repository: str
    archive: str
    sha256: str
    tag: str

    def install(self, *words: str, repository: bool = True, archive: bool = True, code: int = 0) -> Result:
        """Install with a recipe that lists what the build fetches, or does not."""
        recipe = yaml.safe_load(self.small.recipe.read_text())
        mine = recipe["components"]["mine"]
        clone = {"url": self.repository, "pin_file": "CMakeLists.txt", "ref": self.tag, "when": "always"}
        mine["source"]["configure_time"] = [clone] if repository else []
        item = {"url": self.archive, "sha256": self.sha256, "folder": "data-1.0",
                "variable": "FETCHCONTENT_SOURCE_DIR_DATA"}  # fmt: skip
        mine["build"] = {"against": [], "archives": {"data": item} if archive else {}}
        self.small.recipe.write_text(yaml.safe_dump(recipe))
        answer = self.small.install(*words)
        assert answer.status == code, answer.err
        return answer

    def found(self) -> str:
        with zipfile.ZipFile(self.small.wheel) as wheel:
            return wheel.read("mine.py").decode()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("fetched")
    lib = Upstream.make(folder / "srv" / "lib.git")
    tag = lib.commit({"CMakeLists.txt": "set(LIB clone PARENT_SCOPE)\n"})
    with small_world(folder) as small, PackageIndex() as files:
        url = f"{files.at()}/files/data-1.0.tar.gz"
        sha256 = files.add("data-1.0.tar.gz", packed())
        recipe = yaml.safe_load(small.recipe.read_text())
        source = recipe["components"]["mine"]["source"]
        repository = source["url"].replace("mine.git", "lib.git")
        called = BACKEND.replace(
            "    return write", CALLS.replace("\n", "\n    ").join(("    ", "return write")), 1
        )
        files_of_tree = {
            "CMakeLists.txt": CMAKE.format(repository=repository, archive=url, tag=tag),
            "pyproject.toml": PYPROJECT, "backend.py": called, ".gitignore": "__pycache__/\nmine.py\n",
        }  # fmt: skip
        source["commit"] = Upstream(folder / "srv" / "mine.git").commit(files_of_tree)
        small.recipe.write_text(yaml.safe_dump(recipe))
        yield World(small, files, lib, repository, url, sha256, tag)


def test_what_is_not_listed_is_refused_and_named(world: World) -> None:
    said = world.install(repository=False, archive=False, code=30).err
    assert "the build of mine has no network" in said
    assert world.repository in said
    assert "components.mine.source.configure_time" in said
    said = world.install(archive=False, code=30).err
    assert f"it would fetch {world.archive}" in said
    assert not world.files.asked("data-1.0")
    assert not world.small.wheel.exists()


def test_what_is_listed_is_fetched_before_and_handed_over(world: World) -> None:
    world.install()
    assert world.found() == "found = 'clone archive'\n"
    assert len(world.files.asked("data-1.0")) == 1
    hand_over = (world.small.workspace / "build/cmake/mine.cmake").read_text()
    assert hand_over == (
        f"set(FETCHCONTENT_SOURCE_DIR_DATA [==[{world.small.workspace}/build/archives/mine/data/data-1.0]==]"
        ' CACHE PATH "" FORCE)\n'
    )


def test_offline_it_comes_from_a_mirror(world: World, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror"
    answer = world.small("fetch", str(world.small.recipe), "--mirror", str(mirror))
    assert answer.status == 0, answer.err
    small, asked = world.small, len(world.files.requests)
    world.small = SmallWorld(small.folder, small.recipe, tmp_path / "ws")
    world.install("--offline", "--mirror", str(mirror))
    assert world.found() == "found = 'clone archive'\n"
    assert len(world.files.requests) == asked
