"""What cannot be planned as it was asked for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plan_files import prepared_for
from support.plans import chosen, pinned, plan_of, resolved, target_of

from xpubuild.errors import XpuBuildError
from xpubuild.install.options import MOST_JOBS, Options
from xpubuild.install.rehearse import planned
from xpubuild.install.resolve import conda_lock_of
from xpubuild.install.target import OneapiFacts, Prepared
from xpubuild.install.xpu_toolchain import site_folders

WHEEL = {"kind": "wheel", "dist": "torch", "version": "2.0", "cxx11_abi": 0,
         "requirements": "requirements/torch-2.13.0-cpu.txt"}  # fmt: skip
GPU_ONLY = pinned("ops", more={"needs": ["torch"], "optional": True, "targets": ["xpu"]})
SETUP = {"front_end": "setup.py", "config_settings": {"a": "b"}}
TRITONS = {"one": pinned("triton"), "two": pinned("triton-xpu"), "three": pinned("pytorch-triton")}
TORCH = {"torch": pinned("torch")}


@pytest.mark.parametrize(
    ("changes", "asked", "words"),
    [
        ({"abstract": True}, {}, "can only be extended"),
        ({"env": {"A": "{placeholder}"}}, {}, "'{placeholder}' is not a placeholder"),
        ({"targets": ["xpu"], "target": "xpu"}, {"arch": ("pvc", "-x")}, "'-x' is not a device name"),
        ({}, {"arch": ("pvc", "bmg")}, "pvc,bmg is only for the GPU"),
        ({"targets": ["cpu", "xpu"]}, {"arch": ("pvc",)}, "the target of this build is cpu"),
        ({}, {"with_": ("vision",)}, "its components are: torch, triton"),
        ({}, {"without": ("vision", "audio")}, "no component 'vision'"),
        ({}, {"with_": ("triton", "torch"), "without": ("torch", "triton")}, "in both --with and --without"),
        (
            {"targets": ["cpu", "xpu"], "components": {**TORCH, "ops": GPU_ONLY}},
            {"with_": ("ops",), "target": "cpu"}, "recipe 'mine' has it only for xpu",
        ),
        (
            {"components": {**TORCH, "ops": pinned("ops", more={"needs": ["torch"]})}},
            {"without": ("torch",)}, "'ops' cannot be built without 'torch'",
        ),
        ({}, {"variant": "full"}, "it has none"),
        ({"variants": {"one": {}, "two": {}}}, {"variant": "full"}, "it has one, two"),
        ({"abi": {"default": 1, "honoured": False}}, {"cxx11_abi": "0"}, "needs always C++11 ABI 1"),
        (
            {"abi": {"default": 1, "honoured": False, "note": "a note of the recipe"}}, {"cxx11_abi": "0"},
            "a note of the recipe",
        ),
        ({"components": {"torch": WHEEL}}, {"cxx11_abi": "1"}, "needs C++11 ABI 0, that of the prebuilt"),
    ],
)  # fmt: skip
def test_what_the_recipe_does_not_have(changes: dict[str, Any], asked: dict[str, Any], words: str) -> None:
    with pytest.raises(XpuBuildError) as caught:
        chosen(asked, **changes)
    assert words in f"{caught.value.what} {caught.value.why}"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"needs": {"python": ">=3.12"}}, "needs Python >=3.12"),
        ({"needs": {"gcc": ">=99"}}, "needs GCC >=99; the host has 12.2"),
        ({"components": {"torch": pinned("torch", more={"build": SETUP})}}, "setup.py, which builds it"),
        ({"components": {**TORCH, **TRITONS}}, "one and two and three both contain the package triton/"),
    ],
)
def test_what_this_host_does_not_have_or_no_step_can_be_made_of(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(XpuBuildError) as caught:
        plan_of(**changes)
    assert words in f"{caught.value.what} {caught.value.why}"


def test_a_python_and_a_oneapi_that_fit_are_enough() -> None:
    needs = {"oneapi": ">=2025.3", "python": "==3.11.7"}
    target = target_of(facts={"oneapi": OneapiFacts()}, targets=["xpu"], target="xpu", needs=needs)
    assert target.verdict.builds != "no"


def test_only_a_pytorch_of_sources_is_rehearsed() -> None:
    for changes in (
        {"components": {"torch": WHEEL}, "abi": {"default": 0}},
        {"components": {"ops": pinned("ops")}},
    ):
        facts = {"requirements": {WHEEL["requirements"]: ""}}
        target = target_of(facts=facts, **changes)
        with pytest.raises(XpuBuildError, match="does not build PyTorch from source"):
            planned(Prepared(target, plan_of(facts=facts, **changes), 1.0))
    target = target_of(facts=resolved("3" * 40))
    found = planned(Prepared(target, plan_of(facts=resolved("3" * 40)), 1.0))
    step = found.plan.steps[-1]
    assert (step.id, found.disk_gib, step.outputs) == ("torch.configure", 1.0, ("/ws/build/rehearsal/torch",))
    assert planned(prepared_for("2.13")).disk_gib == 8.0


@pytest.mark.parametrize(
    ("jobs", "number"),
    [("auto", "auto"), ("1", 1), ("008", 8), (str(MOST_JOBS), MOST_JOBS), ("4096", 4096)],
)
def test_numbers_of_jobs(jobs: str, number: int | str) -> None:
    assert Options(None, jobs=jobs).job_count == number


@pytest.mark.parametrize("jobs", ["", "0", "-1", "4097", "9" * 60, "x", "\u0664"])
def test_numbers_of_jobs_that_are_none(jobs: str) -> None:
    with pytest.raises(XpuBuildError, match="--jobs") as caught:
        _ = Options(None, jobs=jobs).job_count
    assert caught.value.why == "it must be a number from 1 to 4096, or auto"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"conda_lock": Path("/nothing")}, "--conda-lock needs --packages conda"),
        ({"packages": "conda", "python": "pypy"}, "lists no conda packages"),
        ({"packages": "conda", "conda_lock": Path("/nothing")}, "the conda lock /nothing cannot be read"),
        ({"packages": "conda", "conda_lock": Path("/proc")}, "the conda lock /proc cannot be read"),
    ],
)
def test_conda_packages_that_cannot_be_had(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(XpuBuildError) as caught:
        conda_lock_of(chosen(asked))
    assert words in caught.value.what


def test_an_interpreter_that_conda_does_not_have() -> None:
    target = prepared_for("quickstart").target
    asked = replace(target.options, packages="conda", python="pypy")
    with pytest.raises(XpuBuildError, match="--python pypy is not a version that conda can install"):
        conda_lock_of(replace(target, options=asked))
    assert conda_lock_of(target) is None


@pytest.mark.parametrize("option", ["extra_path", "extra_library_path"])
def test_a_folder_of_a_site_that_is_not_there(tmp_path: Path, option: str) -> None:
    given: dict[str, Any] = {option: (tmp_path, tmp_path / "x", tmp_path / "y")}
    with pytest.raises(XpuBuildError, match=f"{tmp_path}/x is not a folder"):
        site_folders(Options(None, **given))
