"""What would stop an install before its first step: plan tells it, install ends with it."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.wheel_world import OTHER, THIS, World, wheel
from support.cli import Xpubuild
from support.indexes import PackageIndex

pytestmark = pytest.mark.asks_indexes


@pytest.fixture
def world(tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setenv("XPUBUILD_INSTALLER", "uv")
    # The wheel's own index alone is asked.
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    # The mirrors of other tests set it for as long as their worker lives.
    monkeypatch.delenv("PIP_NO_INDEX", raising=False)
    with PackageIndex() as index:
        yield World(tmp_path, index, xpubuild)


def test_a_wheel_for_another_python_alone(world: World) -> None:
    world.index.add(wheel(OTHER))
    (told,) = world.planned()
    assert told["what"].startswith("tiny 1.0+cpu for Python 3.")
    assert told["exit_code"] == 30
    assert "`cp39`" in told["why"]
    assert told["fix"].startswith("use Python 3.9 (--python), or let pip use an index")
    assert world.refused()["what"] == told["what"]


def test_a_pinned_wheel_is_asked_of_pips_index_and_then_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    pin = f"tiny==1.0+cpu --hash=sha256:{world.index.add(wheel(THIS))}\nother==2.0 --hash=sha256:{'1' * 64}\n"
    world.write(text=pin)
    with PackageIndex() as empty:
        monkeypatch.setenv("PIP_INDEX_URL", empty.url())
        assert world.planned() == []
        world.index.files.clear()
        world.index.add(wheel(OTHER))
        (told,) = world.planned()
    assert told["exit_code"] == 30
    # Of the other pins of the file pip will tell.
    assert {path for path in world.index.asked() if "other" in path} == set()


def test_an_index_that_is_out_of_reach(world: World) -> None:
    world.write()
    world.recipe.write_text(world.recipe.read_text().replace(world.index.url(), "http://127.0.0.1:1/simple"))
    (told,) = world.planned()
    assert told["exit_code"] == 30
    assert told["fix"].startswith("check the network, the proxy")
    assert world.refused()["what"] == told["what"]


def test_a_wheel_that_is_there(world: World) -> None:
    world.index.add(wheel(THIS))
    assert world.planned() == []


def test_a_disk_that_is_too_small(world: World) -> None:
    world.index.add(wheel(THIS))
    world.write(disk=1e7)
    (told,) = world.planned()
    assert (told["code"], told["exit_code"]) == ("no-space", 52)
    assert told["commands"] == [f"df -h {shlex.quote(str(world.workspace.parent))}"]
    assert told["what"].startswith(f"{world.workspace} has ")
    assert world.refused()["code"] == "no-space"


def test_offline_without_a_mirror_says_fetch(world: World) -> None:
    (told,) = world.planned("--offline")
    assert told["exit_code"] == 30
    assert told["fix"].startswith("fill a mirror with xpubuild fetch")
    assert told["commands"][0] == "xpubuild fetch small --mirror DIR"
    assert world.refused("--offline")["what"] == told["what"]
    assert world.index.asked() == []


def test_a_person_reads_it_below_the_steps(world: World, xpubuild: Xpubuild) -> None:
    world.index.add(wheel(OTHER))
    said = xpubuild("plan", str(world.recipe), "--workspace", str(world.workspace)).out
    _, _, rest = said.partition("Install would stop before the first step, with exit code 30\n")
    assert rest.startswith("tiny 1.0+cpu for Python 3.")
    assert "\n  pip config list\n" in rest
