"""A prebuilt wheel whose hash no recipe knows: a lock gets it from the index, and installs keep to it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.test_components_held import wheel
from support.cli import Result, Xpubuild
from support.indexes import PackageIndex

RECIPE = """
schema: 1
name: prebuilt
title: a wheel of an index of its own
target: cpu
needs: {{disk_gib: 0.01}}
components:
  tiny:
    kind: wheel
    dist: tiny-wheel
    version: 1.0+xpu
    indexes: ["{index}"]
"""


@dataclass
class World:
    """A recipe, the index that has its wheel, and two builds of that wheel under one name."""

    folder: Path
    index: PackageIndex
    builds: tuple[bytes, bytes]

    @property
    def recipe(self) -> str:
        return str(self.folder / "prebuilt.yaml")

    def serve(self, build: int) -> str:
        """Let the index have one of the builds; return its sha256."""
        return self.index.add("tiny_wheel-1.0+xpu-py3-none-any.whl", self.builds[build])


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The mirrors of other tests set these for as long as their worker lives.
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    builds = []
    for number in (1, 2):
        folder = tmp_path / f"build {number}"
        folder.mkdir()
        path = wheel(folder, "tiny-wheel", "1.0+xpu", "tiny.py", body=f"BUILD = {number}\n")
        builds.append(path.read_bytes())
    with PackageIndex() as index:
        (tmp_path / "prebuilt.yaml").write_text(RECIPE.format(index=index.url()))
        yield World(tmp_path, index, (builds[0], builds[1]))


def install(xpubuild: Xpubuild, world: World, *words: str) -> Result:
    workspace = str(world.folder / "ws")
    return xpubuild("install", world.recipe, "--workspace", workspace, "--until", "tiny", *words)


def test_the_lock_has_the_hash_and_the_install_keeps_to_it(xpubuild: Xpubuild, world: World) -> None:
    sha256 = world.serve(0)
    xpubuild.ok("lock", world.recipe)
    assert sha256 in (world.folder / "prebuilt.lock.yaml").read_text()
    assert xpubuild("check", "prebuilt.lock.yaml", "--recipe", world.recipe).status == 0
    assert install(xpubuild, world, "--locked").status == 0
    # Another file under the same name and version, as indexes that are rebuilt every night have it.
    world.serve(1)
    found = xpubuild("check", "prebuilt.lock.yaml", "--recipe", world.recipe)
    assert found.status == 21
    assert "tiny" in found.err


def test_another_wheel_under_the_same_name_is_refused(xpubuild: Xpubuild, world: World) -> None:
    old = world.serve(0)
    xpubuild.ok("lock", world.recipe)
    new = world.serve(1)
    answer = install(xpubuild, world, "--locked")
    assert answer.status == 31, answer.err
    assert "tiny-wheel" in answer.err
    assert re.search(f"{new}.*{old}", answer.err)


def test_what_was_installed_before_is_held_against_the_lock(xpubuild: Xpubuild, world: World) -> None:
    world.serve(1)
    assert install(xpubuild, world).status == 0
    world.serve(0)
    xpubuild.ok("lock", world.recipe)
    assert install(xpubuild, world, "--locked").status == 31


def test_an_index_out_of_reach_leaves_the_hash_open(xpubuild: Xpubuild, world: World) -> None:
    answer = xpubuild("lock", world.recipe)
    assert answer.status == 0, answer.err
    assert "leaves it open" in answer.err
    assert "hashes:" not in (world.folder / "prebuilt.lock.yaml").read_text()


def test_offline_it_comes_from_the_mirror(xpubuild: Xpubuild, world: World) -> None:
    sha256 = world.serve(0)
    mirror = str(world.folder / "mirror")
    xpubuild.ok("fetch", world.recipe, "--mirror", mirror)
    xpubuild.ok("lock", world.recipe, "--mirror", mirror, "--offline")
    assert sha256 in (world.folder / "prebuilt.lock.yaml").read_text()
    asked = len(world.index.asked())
    answer = install(xpubuild, world, "--locked", "--mirror", mirror, "--offline")
    assert answer.status == 0, answer.err
    assert len(world.index.asked()) == asked
    assert install(xpubuild, world, "--offline").status == 0, "what is done needs no mirror"
