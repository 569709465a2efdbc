"""oneAPI in a lock: the same wherever it is installed, compared by policy; installations are stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest
from integration import oneapi_standin as standin
from support import travelling
from support.cli import Xpubuild

from xpubuild.install import lock_model as model
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
    indexes: ["https://host.example/whl"]
"""


@pytest.fixture
def recipe(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text(RECIPE)
    return str(path)


def lock(xpubuild: Xpubuild, recipe: str, root: Path, name: str) -> Path:
    file = root.parent / f"{name}.lock.yaml"
    xpubuild.ok("lock", recipe, "--oneapi-root", str(root), "-o", str(file))
    return file


def oneapi(file: Path) -> model.Oneapi:
    found = read_lock(file).machine.oneapi
    assert found is not None
    return found


def test_two_places_of_oneapi_give_the_same_bytes(xpubuild: Xpubuild, recipe: str, tmp_path: Path) -> None:
    one = lock(xpubuild, recipe, standin.build_root(tmp_path / "intel one é"), "one")
    (tmp_path / "other").mkdir()
    other = lock(xpubuild, recipe, standin.build_root(tmp_path / "other/oneapi"), "other")
    assert one.read_bytes() == other.read_bytes()
    assert str(tmp_path) not in one.read_text()
    found = oneapi(one)
    assert set(found.components) == {"compiler", "pti", "umf", "ccl", "mpi"}
    assert found.environment.set["CMPLR_ROOT"].startswith("{oneapi}/compiler/")


def test_a_runtime_for_portable_wheels_has_the_versions_of_the_lock(
    xpubuild: Xpubuild, recipe: str, tmp_path: Path
) -> None:
    root = standin.build_root(tmp_path / "oneapi")
    file = lock(xpubuild, recipe, root, "one")
    compiler = oneapi(file).components["compiler"]
    words = ("plan", recipe, "--lock", str(file), "--oneapi-root", str(root), "--portable", "--runtime")
    right = travelling.sycl_runtime(tmp_path / "right", f"{compiler}.9")
    assert xpubuild(*words, str(right)).status == 0
    wrong = travelling.sycl_runtime(tmp_path / "wrong", "2024.2.0")
    result = xpubuild(*words, str(wrong))
    assert (result.status, "intel-sycl-rt 2024.2.0" in result.err) == (21, True)
    assert f"oneAPI's compiler {compiler}" in result.err
