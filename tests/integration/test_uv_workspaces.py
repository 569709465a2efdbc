"""Two workspaces whose packages uv links from one cache: a no-op, damage through a link, its repair."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.test_components_held import pins, wheel
from support.cli import Result, here
from support.documents import check
from support.indexes import PackageIndex

RECIPE = """
schema: 1
name: linked
title: one package
target: cpu
needs: {disk_gib: 0.01}
toolchain: {requirements: []}
components:
  tiny: {kind: wheel, dist: tiny-wheel, version: 1.0+cpu, requirements: tiny.txt}
"""


@dataclass
class World:
    """A recipe, its index, and workspaces beside each other."""

    folder: Path
    index: PackageIndex

    def __call__(self, *words: str) -> Result:
        variables = {"PIP_INDEX_URL": self.index.url(), "PIP_CONFIG_FILE": os.devnull, "PIP_RETRIES": "0"}
        return here(*words, XPUBUILD_INSTALLER="uv", **variables)

    def install(self, name: str) -> dict[str, object]:
        words = ("install", str(self.folder / "linked.yaml"), "--workspace", str(self.folder / name))
        result = self(*words, "--until", "tiny", "--json")
        assert result.status == 0, result.err
        return result.document()

    def file(self, name: str) -> Path:
        (found,) = (self.folder / name).glob("env/lib/python3*/site-packages/tiny.py")
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("linked")
    tiny = wheel(folder / "built", "tiny-wheel", "1.0+cpu", "tiny.py", body="filler = 1\n" * 50)
    (folder / "linked.yaml").write_text(RECIPE)
    (folder / "tiny.txt").write_text(pins(tiny))
    with PackageIndex() as index:
        index.add(tiny.name, tiny.read_bytes())
        made = World(folder, index)
        made.install("one")
        fetched = index.asked(".whl")
        made.install("two")
        assert index.asked(".whl") == fetched
        yield made


def test_a_second_workspace_asks_nobody_and_the_first_stays_as_it_was(world: World) -> None:
    assert world.file("one").samefile(world.file("two"))
    assert world.install("one")["ran"] == []
    receipt = json.loads((world.folder / "two" / "receipt.json").read_text())
    (item,) = receipt["prebuilt"]
    assert f"sha256:{item['sha256']}" in (world.folder / "tiny.txt").read_text()
    assert any("link-packages" in command["argv"] for command in receipt["commands"])
    assert not any("install" in command["argv"][:6] for command in receipt["commands"])


def test_damage_through_a_link_is_found_in_both_workspaces_and_repaired_in_each(world: World) -> None:
    """The next install sees the file's new time; check would also see damage that has the old one."""
    sound = world.file("one").read_bytes()
    with world.file("one").open("r+b") as stream:
        stream.write(bytes([sound[0] ^ 1]))
    looked = world("check", str(world.folder / "one"), "--json")
    assert looked.status == 60, looked.err
    (damage,) = check(looked.document(), "check")["damaged"]
    assert damage["name"] == "tiny-wheel"
    repaired = world("check", str(world.folder / "one"), "--repair", "--json")
    assert repaired.status == 0, repaired.err
    assert world.file("one").read_bytes() == sound
    # Its own file still has the damage: nothing was written through the link.
    assert world.file("two").read_bytes() != sound
    assert world.install("two")["ran"] == ["tiny"]
    assert world.file("two").read_bytes() == sound
    assert world.file("one").samefile(world.file("two"))
