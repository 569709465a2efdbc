"""The steps of ``--env conda``: what they run, what their fingerprints hold, what is left to pip."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from xpubuild.engine.fingerprint import step_fingerprint
from xpubuild.install import conda_steps, env_steps
from xpubuild.install.choose import choose
from xpubuild.install.conda_steps import CondaFacts, remaining, specifications
from xpubuild.install.context import Context
from xpubuild.install.planner import requirement_names
from xpubuild.install.request import Compilers, Downloads, Facts, Request
from xpubuild.recipe.load import load
from xpubuild.resources import recipes_dir
from xpubuild.supply.conda.lockfile import write_lock
from xpubuild.supply.conda.model import CondaLock, CondaPackage
from xpubuild.supply.requirements import pinned
from xpubuild.workspace.layout import Layout

BASE = "https://conda.example.invalid/forge/linux-64"


def package(name: str, version: str, digest: str = "0") -> CondaPackage:
    filename = f"{name}-{version}-h0.conda"
    return CondaPackage(name, version, "h0", filename, f"{BASE}/{filename}", digest * 64, "0" * 32)


LOCK = CondaLock(
    (
        package("cmake", "3.31.2"), package("mkl-include", "2026.0.0"), package("mkl-static", "2026.0.0"),
        package("ninja", "1.13.0"), package("pip", "25.0"), package("python", "3.12.4"),
        package("setuptools", "80.0"),
    ), ("conda-forge",), "0" * 64, ("tbb",),
)  # fmt: skip


def context_of(name: str = "quickstart", **given: object) -> Context:
    loaded = load(name)
    request = Request(loaded=loaded, workspace=Path("/w/my wörk"))
    facts = Facts(
        python="/usr/bin/python3.12", python_version="3.12.4",
        compilers=Compilers("/usr/bin/gcc", "/usr/bin/g++", "13.2"), jobs=1, jobs_reason="", cache=Path("/c"),
        requirements={},
    )  # fmt: skip
    known = replace(facts, **given)  # type: ignore[arg-type]
    context = Context(request, choose(request), known, Layout(request.workspace))
    texts = {
        item: (loaded.folders[0] / item).read_text("utf-8")
        for item in requirement_names(request, context.choice)
        if (loaded.folders[0] / item).is_file()
    }
    return replace(context, facts=replace(context.facts, requirements=texts))


CONDA = CondaFacts(write_lock(LOCK))


def test_the_environment_is_made_by_one_command_that_the_plan_shows() -> None:
    context = context_of()
    step = conda_steps.environment_step(context, CONDA)
    assert step.id == "env"
    assert "3.12.4" in step.title
    argv = ("xpubuild", "plumbing", "conda-env", "/w/my wörk/env", "--lock", "/w/my wörk/conda-lock.yml")
    assert step.commands[0].argv == (*argv, "--cache", "/c/conda")
    assert step.commands[0].portable == (
        "conda-lock install --prefix '/w/my wörk/env' '/w/my wörk/conda-lock.yml'",
    )
    assert CONDA.files(context) == {"/w/my wörk/conda-lock.yml": CONDA.text}
    assert [proof.key()["proof"] for proof in step.proofs] == ["conda-environment", "mkl-static"]
    assert "/w/my wörk/env/conda-meta/cmake-3.31.2-h0.json" in step.witnesses
    assert step.outputs == ("/w/my wörk/env", "/w/my wörk/.env.conda")


def test_a_fingerprint_holds_the_packages_and_not_where_they_come_from() -> None:
    first = step_fingerprint(conda_steps.environment_step(context_of(), CONDA), {})
    mirror = context_of(downloads=Downloads(mirror=Path("/mirror"), offline=True))
    step = conda_steps.environment_step(mirror, CONDA)
    assert step.commands[0].tuning == {"XPUBUILD_MIRROR": "/mirror", "XPUBUILD_OFFLINE": "1"}
    assert step_fingerprint(step, {}) == first
    other = replace(LOCK, packages=(package("cmake", "3.31.2", "1"), *LOCK.packages[1:]))
    changed = conda_steps.environment_step(context_of(), CondaFacts(write_lock(other)))
    assert step_fingerprint(changed, {}) != first
    assert step_fingerprint(env_steps.environment_step(context_of()), {}) != first


def test_pip_installs_what_conda_did_not_bring() -> None:
    context = context_of()
    step = conda_steps.toolchain_step(context, CONDA)
    assert step is not None
    assert step.id == "toolchain"
    assert step.needs == ("env",)
    text = conda_steps.remaining_files(context, CONDA)["requirements/quickstart-toolchain.txt"]
    names = {name for name, _ in pinned(text, "3.12.4")}
    assert names == {"packaging", "pathspec", "scikit-build-core", "setuptools", "wheel"}
    assert not any("mkl" in proof.describe() for proof in step.proofs)
    # The recipe's own file is untouched, and a venv has all of it.
    assert "mkl-static" in context.facts.requirements["requirements/quickstart-toolchain.txt"]


@pytest.mark.parametrize("name", ["quickstart", "2.6", "2.8", "2.13"])
def test_what_is_left_of_each_file_is_whole(name: str) -> None:
    context = context_of(name)
    for text in conda_steps.remaining_files(context, CONDA).values():
        pins = pinned(text, "3.12.4")
        assert pins
        # Every pin keeps hashes of its own, and none is left without a pin.
        blocks = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE)[1:]
        assert all("--hash=sha256:" in block for block in blocks)
        assert text.count("--hash=") == sum(block.count("--hash=") for block in blocks)
        gone = {"cmake", "ninja", "mkl-static", "mkl-include", "tbb", "umf", "tcmlib", "intel-openmp"}
        assert not gone & {item for item, _ in pins}


def test_without_conda_packages_of_mkl_pip_brings_them() -> None:
    lock = replace(LOCK, packages=(package("python", "3.12.4"), package("ninja", "1.13.0")))
    text = "ninja==1 \\\n    --hash=sha256:a\ntbb==2 \\\n    --hash=sha256:b\n    # via mkl-static\n"
    assert remaining(text, lock) == "tbb==2 \\\n    --hash=sha256:b\n    # via mkl-static\n"
    assert remaining(text, LOCK) == ""


def test_nothing_left_means_no_step() -> None:
    context = context_of()
    texts = dict.fromkeys(context.facts.requirements, "# only a comment\nninja==1 --hash=sha256:a\n")
    empty = replace(context, facts=replace(context.facts, requirements=texts))
    assert conda_steps.toolchain_step(empty, CONDA) is None


def test_specifications_are_filled() -> None:
    tools = load("2.8").recipe.toolchain
    assert specifications(tools, "3.12.4") == (
        "python 3.12.*", "pip", "cmake >=3.27,<4", "ninja", "mkl-static ==2025.2.0", "mkl-include ==2025.2.0",
    )  # fmt: skip
    assert specifications(tools.model_copy(update={"mkl": None}), "3.10")[4] == "mkl-static *"
    assert specifications(tools.model_copy(update={"conda": None}), "3.10") == ()


def test_every_recipe_can_be_built_with_conda() -> None:
    for path in recipes_dir().glob("*.yaml"):
        name, tools = path.stem, load(path.stem).recipe.toolchain
        assert tools.conda is not None, name
        assert tools.conda.channels, name
        assert not any("{" in item for item in specifications(tools, "3.12")), name
