"""oneAPI in a lock: the same wherever it is installed, compared by policy; installations are stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support.cli import Xpubuild

from xpubuild.install.lock_file import read_lock

RECIPE = """
schema: 1
name: small
title: one prebuilt wheel for XPU
target: xpu
targets: [xpu]
needs: {disk_gib: 0.01, oneapi: ">=2025.1,<2026", oneapi_components: [compiler, pti, umf, ccl, mpi]}
components:
  torch:
    kind: wheel
    dist: torch
    version: 2.8.0+xpu
    requirements: torch.txt
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(RECIPE)
    (tmp_path / "torch.txt").write_text(f"torch==2.8.0+xpu --hash=sha256:{'1' * 64}\n")
    return str(path)


def lock(xpubuild: Xpubuild, recipe: str, root: Path, name: str) -> Path:
    file = root.parent / f"{name}.lock.yaml"
    xpubuild.ok("lock", recipe, "--oneapi-root", str(root), "-o", str(file))
    return file


def test_two_places_of_oneapi_give_the_same_bytes(xpubuild: Xpubuild, recipe: str, tmp_path: Path) -> None:
    one = lock(xpubuild, recipe, standin.build_root(tmp_path / "intel one é"), "one")
    (tmp_path / "other").mkdir()
    other = lock(xpubuild, recipe, standin.build_root(tmp_path / "other/oneapi"), "other")
    assert one.read_bytes() == other.read_bytes()
    assert str(tmp_path) not in one.read_text()
    assert set(read_lock(one).machine.oneapi) == {"compiler", "pti", "umf", "ccl", "mpi"}
