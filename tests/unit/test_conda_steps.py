"""The steps of ``--packages conda``: what they run, what their fingerprints hold, what is left to pip."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plan_files import target_for

from xpubuild.engine.model import Step
from xpubuild.install.conda_environment import conda_files, conda_steps, remaining, specifications
from xpubuild.install.target import Target
from xpubuild.recipe.load import load
from xpubuild.resources import recipes_dir
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage, write_lock
from xpubuild.supply.requirements import pinned

BASE = "https://conda.example.invalid/forge/linux-64"


def package(name: str, version: str, digest: str = "0") -> CondaPackage:
    filename = f"{name}-{version}-h0.conda"
    return CondaPackage(name, version, "h0", filename, f"{BASE}/{filename}", digest * 64, "0" * 32)


LOCK = CondaLock(
    (
        package("cmake", "3.31.2"), package("ninja", "1.13.0"), package("pip", "25.0"),
        package("python", "3.12.4"), package("setuptools", "80.0"),
    ), ("conda-forge",), "0" * 64,
)  # fmt: skip


def target_of(name: str = "quickstart", lock: CondaLock = LOCK, **facts: Any) -> Target:
    known = {"cache": Path("/c"), "conda_lock": write_lock(lock), **facts}
    return target_for(name, workspace="/w/my wörk", facts=known)


def step_of(target: Target, name: str) -> Step:
    return next(step for step in conda_steps(target) if step.id == name)


def left(target: Target) -> dict[str, str]:
    """Return the requirement files that pip gets."""
    return {path: text for path, text in conda_files(target).items() if path.endswith(".txt")}


def test_the_environment_is_made_by_one_command_that_the_plan_shows() -> None:
    target = target_of()
    step = step_of(target, "env")
    assert "3.12.4" in step.title
    argv = ("xpubuild", "plumbing", "conda-env", "/w/my wörk/env", "--lock", "/w/my wörk/conda-lock.yml")
    assert step.commands[0].argv == (*argv, "--cache", "/c/conda")
    assert step.commands[0].portable == (
        "conda-lock install --prefix '/w/my wörk/env' '/w/my wörk/conda-lock.yml'",
    )
    assert conda_files(target)["/w/my wörk/conda-lock.yml"] == write_lock(LOCK)
    assert [proof.key()["proof"] for proof in step.proofs] == ["conda-environment"]
    assert "/w/my wörk/env/conda-meta/cmake-3.31.2-h0.json" in step.witnesses
    assert step.outputs == ("/w/my wörk/env", "/w/my wörk/.env.conda")


def test_pip_installs_what_conda_did_not_bring() -> None:
    target = target_of()
    step = step_of(target, "toolchain")
    assert step.needs == ("env",)
    text = left(target)["/w/my wörk/build/requirements/quickstart-toolchain.txt"]
    names = {name for name, _ in pinned(text, "3.12.4")}
    assert names >= {"packaging", "pathspec", "scikit-build-core", "setuptools", "wheel", "mkl-static"}
    assert not names & {"cmake", "ninja"}
    assert any("MKL" in proof.describe() for proof in step.proofs)
    # The recipe's own file is untouched, and a venv has all of it.
    assert "cmake==" in target.requirements["requirements/quickstart-toolchain.txt"]


@pytest.mark.parametrize("name", ["quickstart", "2.6", "2.8", "2.13"])
def test_what_is_left_of_each_file_is_whole(name: str) -> None:
    for text in left(target_of(name)).values():
        pins = pinned(text, "3.12.4")
        assert pins
        # Every pin keeps hashes of its own, and none is left without a pin.
        blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in block for block in blocks)
        assert text.count("--hash=") == sum(block.count("--hash=") for block in blocks)
        assert not {"cmake", "ninja"} & {item for item, _ in pins}


def test_a_program_that_conda_did_not_bring_is_left_to_pip() -> None:
    lock = replace(LOCK, packages=(package("python", "3.12.4"), package("ninja", "1.13.0")))
    text = "ninja==1 \\\n    --hash=sha256:a\ncmake==2 \\\n    --hash=sha256:b\n    # via demo\n"
    assert remaining(text, lock) == "cmake==2 \\\n    --hash=sha256:b\n    # via demo\n"
    assert remaining(text, LOCK) == ""


def test_every_recipe_can_be_built_with_conda() -> None:
    for path in recipes_dir().glob("*.yaml"):
        name, tools = path.stem, load(path.stem).recipe.toolchain
        assert tools.conda is not None, name
        assert tools.conda.channels, name
        assert not any("{" in item for item in specifications(tools, "3.12")), name
