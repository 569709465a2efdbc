"""What would stop an install before its first step: plan says it, install ends with it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.cli import Xpubuild
from support.documents import check

RECIPE = """
schema: 1
name: small
title: one prebuilt wheel
target: cpu
needs: {disk_gib: 0.01}
components:
  tiny: {kind: wheel, dist: tiny, version: 1.0+cpu, requirements: tiny.txt}
"""


class World:
    """A recipe, and where it would be installed."""

    def __init__(self, folder: Path, xpubuild: Xpubuild) -> None:
        self.recipe, self.workspace, self.run = folder / "small.yaml", folder / "ws", xpubuild
        self.recipe.write_text(RECIPE)
        (folder / "tiny.txt").write_text(f"tiny==1.0+cpu --hash=sha256:{'1' * 64}\n")

    def stopped(self, *words: str) -> Mapping[str, Any]:
        """Return what plan says would stop the install, which ends with the same, having made nothing."""
        argv = (str(self.recipe), "--workspace", str(self.workspace), *words)
        (said,) = check(self.run("plan", *argv, "--json").document(), "plan")["obstacles"]
        assert not self.workspace.exists()
        ended = self.run("install", *argv, "--json")
        error: dict[str, Any] = check(ended.document(), "error")["error"]
        assert not (self.workspace / "env").exists()
        assert ended.status == error["exit_code"] == said["exit_code"]
        assert (error["code"], error["fix"]) == (said["code"], said["fix"])
        return error


@pytest.fixture
def world(tmp_path: Path, xpubuild: Xpubuild, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    return World(tmp_path, xpubuild)


def test_a_disk_that_is_too_small(world: World) -> None:
    world.recipe.write_text(RECIPE.replace("0.01", "10000000"))
    found = world.stopped()
    assert (found["code"], found["exit_code"]) == ("no-space", 52)
    assert found["commands"] == [f"df -h {shlex.quote(str(world.workspace))}"]
    assert found["what"].startswith(f"{world.workspace} has ")


def test_offline_without_a_mirror_says_fetch(world: World) -> None:
    found = world.stopped("--offline")
    assert found["exit_code"] == 30
    assert found["fix"].startswith("fill a mirror with xpubuild fetch")
    assert found["commands"][0] == "xpubuild fetch small --mirror DIR"


def test_a_person_reads_it_below_the_steps(world: World) -> None:
    said = world.run("plan", str(world.recipe), "--workspace", str(world.workspace), "--offline").out
    _, _, rest = said.partition("Install would stop before the first step, with exit code 30\n")
    assert rest.startswith("tiny==1.0+cpu for Python 3.")
