"""doctor: whether the indexes have the wheels that a recipe takes prebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from integration.wheel_world import OTHER, World, wheel
from support.cli import Xpubuild
from support.doctor_env import EnvHost, offline
from support.doctor_shows import shows
from support.indexes import PackageIndex

from xpubuild.doctor.checks.network import network_wheels
from xpubuild.doctor.kit import Outcome
from xpubuild.machine.pythons import PythonFacts
from xpubuild.recipe.load import load

pytestmark = pytest.mark.asks_indexes


@pytest.fixture
def world(tmp_path: Path, xpubuild: Xpubuild) -> Iterator[World]:
    with PackageIndex() as index:
        yield World(tmp_path, index, xpubuild)


def asked(world: World, folder: Path, version: str, *others: PythonFacts) -> Outcome:
    """Return what doctor says of the recipe for a Python, on a host that has other ones."""
    host = EnvHost(folder / "host")
    host.python(version)
    host.facts["python"] = replace(host.facts["python"], found=others)
    del host.environ["PIP_NO_INDEX"]
    host.environ.update(PIP_INDEX_URL="http://127.0.0.1:1/simple", PIP_CONFIG_FILE="/dev/null")
    return network_wheels(host.context(load(str(world.recipe))))


@shows("ok", "network.wheels")
@shows("fail", "network.wheels")
def test_doctor_names_an_interpreter_that_has_the_wheel(world: World, tmp_path: Path) -> None:
    world.index.add(wheel(OTHER))
    assert asked(world, tmp_path, "3.9.1").detail == "tiny 1.0+cpu for Python 3.9.1"
    found = asked(
        world, tmp_path, "3.12.4", PythonFacts("/opt/3.10", "3.10.1"), PythonFacts("/opt/3.9", "3.9.2")
    )
    assert found.status == "fail"
    assert found.detail == "tiny 1.0+cpu for Python 3.12.4 was not found; there is one for Python 3.9"
    assert found.fix is not None
    assert found.fix.commands == ("xpubuild install small --python /opt/3.9",)


def test_doctor_without_a_python_that_has_it_and_without_prebuilt_wheels(
    world: World, tmp_path: Path
) -> None:
    found = asked(world, tmp_path, "3.12.4")
    assert found.detail.startswith("tiny 1.0+cpu for Python 3.12.4 was not found; No solution found")
    assert found.fix is not None
    assert found.fix.commands[0] == "pip config list"
    none = network_wheels(EnvHost(tmp_path / "host").context(offline("2.8")))
    assert (none.status, none.detail) == ("skip", "the recipe takes no prebuilt wheel")
