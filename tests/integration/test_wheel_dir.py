"""``--wheel-dir``: what was proved can be installed from it, with nothing else and without a network."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from integration.small_world import SmallWorld, small_world
from integration.test_components_held import wheel
from support.documents import check
from support.needs import without_network

from xpubuild.install.results import REQUIREMENTS


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallWorld]:
    with small_world(tmp_path_factory.mktemp("world")) as made:
        yield made


def hand_out(world: SmallWorld, folder: Path) -> dict[str, object]:
    result = world.install("--wheel-dir", str(folder), "--json")
    assert result.status == 0, result.err
    found = check(json.loads(result.out), "receipt")["wheel_dir"]
    assert isinstance(found, dict)
    return found


@pytest.mark.needs("netns")
def test_the_one_command_installs_it_in_an_empty_environment_without_a_network(
    world: SmallWorld, tmp_path: Path
) -> None:
    folder = tmp_path / "wheels to share"
    found = hand_out(world, folder)
    assert found["wheels"] == ["mine-1.0-py3-none-any.whl", "tiny_wheel-1.0+cpu-py3-none-any.whl"]
    assert found["not_copied"] == []
    assert 'href="tiny_wheel-1.0%2Bcpu-py3-none-any.whl#sha256=' in (folder / "index.html").read_text()
    # What a careless index would offer instead: a newer one that the requirement allows as well.
    wheel(folder, "tiny-wheel", "2.0", "tiny.py", body="CUDA = True\n")
    env = tmp_path / "empty"
    subprocess.run(
        [sys.executable, "-m", "virtualenv", "--quiet", "--no-periodic-update", str(env)], check=True
    )
    command = shlex.split(str(found["command"]))
    assert command[0] == "python"
    argv = [*without_network(), str(env / "bin" / "python"), *command[1:]]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    shown = subprocess.run(
        [str(env / "bin" / "python"), "-c", "import mine, tiny; print(tiny.version)"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert shown.stdout == "1.0+cpu\n"


def test_a_damaged_wheel_is_not_handed_out_and_what_cannot_be_had_is_pinned(
    world: SmallWorld, tmp_path: Path
) -> None:
    folder = tmp_path / "shared"
    hand_out(world, folder)
    (copied,) = folder.glob("tiny_wheel-*.whl")
    copied.write_bytes(copied.read_bytes()[:-50] + bytes(50))
    assert "mine-1.0-py3-none-any.whl" in str(hand_out(world, folder)["wheels"])
    text = (folder / REQUIREMENTS).read_text()
    assert text.count("--hash=sha256:") == 2
