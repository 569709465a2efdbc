"""What cannot be planned as it was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plan_files import context_for
from support.plans import plan_of
from unit.test_plan_resolved import FACTS, request, resolved

from xpubuild.errors import XpuBuildError
from xpubuild.install.choose import choose
from xpubuild.install.conda_packages import CondaRequest, conda_lock
from xpubuild.install.facts import conda_lock_of
from xpubuild.install.options import MOST_JOBS, PlanOptions, request_of
from xpubuild.install.planner import make_context
from xpubuild.install.rehearsal import rehearsal
from xpubuild.install.request import OneapiFacts, Request
from xpubuild.install.site_folders import site_folders
from xpubuild.workspace.layout import Layout

COMMIT = "3" * 40


def source(name: str, *needs: str, **more: Any) -> dict[str, Any]:
    pinned = {"url": f"https://host/{name}.git", "commit": COMMIT}
    return {"kind": "source", "dist": name, "source": pinned, "needs": list(needs), **more}


def components(**more: Mapping[str, Any]) -> dict[str, Any]:
    return {"torch": source("torch"), **more}


WHEEL = {"kind": "wheel", "dist": "torch", "version": "2.0", "cxx11_abi": 0, "indexes": ["https://host/i"]}
GPU_ONLY = {"torch": source("torch"), "ops": source("ops", "torch", optional=True, targets=["xpu"])}
SETUP = {"front_end": "setup.py", "config_settings": {"a": "b"}}
TRITONS = {"one": source("triton"), "two": source("triton-xpu"), "three": source("pytorch-triton")}


@pytest.mark.parametrize(
    ("changes", "asked"),
    [
        ({"abstract": True}, {}),
        ({"env": {"A": "{placeholder}"}}, {}),
        ({}, {"arch": ("pvc", "-x")}),
        ({}, {"arch": ("pvc", "bmg")}),
        ({"targets": ["cpu", "xpu"]}, {"arch": ("pvc",)}),
        ({}, {"with_": ("vision",)}),
        ({}, {"without": ("vision", "audio")}),
        ({}, {"with_": ("triton", "torch"), "without": ("torch", "triton")}),
        ({"targets": ["cpu", "xpu"], "components": GPU_ONLY}, {"with_": ("ops",), "target": "cpu"}),
        ({"components": components(ops=source("ops", "torch"))}, {"without": ("torch",)}),
        ({}, {"variant": "full"}),
        ({"variants": {"one": {}, "two": {}}}, {"variant": "full"}),
        ({"abi": {"default": 1, "honoured": False}}, {"cxx11_abi": 0}),
        ({"abi": {"default": 1, "honoured": False, "note": "a note of the recipe"}}, {"cxx11_abi": 0}),
        ({"components": {"torch": WHEEL}}, {"cxx11_abi": 1}),
    ],
)
def test_what_the_recipe_does_not_have(changes: dict[str, Any], asked: dict[str, Any]) -> None:
    with pytest.raises(XpuBuildError):
        choose(replace(request(**changes), **asked))


@pytest.mark.parametrize(
    ("changes", "asked", "facts"),
    [
        ({"needs": {"python": ">=3.12"}}, {}, {}),
        ({"targets": ["xpu"], "target": "xpu", "needs": {"oneapi": ">=2025.3"}}, {}, {}),
        ({"needs": {"gcc": ">=99"}}, {}, {}),
    ],
)
def test_what_this_host_does_not_have(
    changes: dict[str, Any], asked: dict[str, Any], facts: dict[str, Any]
) -> None:
    with pytest.raises(XpuBuildError):
        make_context(replace(request(**changes), **asked), replace(FACTS, **facts))


def test_a_python_and_a_oneapi_that_fit_are_enough() -> None:
    asked = request(targets=["xpu"], target="xpu", needs={"oneapi": ">=2025.3", "python": "==3.11.7"})
    context = make_context(asked, replace(FACTS, oneapi=OneapiFacts()))
    assert context.verdict.builds != "no"
    assert make_context(replace(asked, target="xpu"), replace(FACTS, oneapi=OneapiFacts())) == replace(
        context, request=replace(asked, target="xpu")
    )


@pytest.mark.parametrize("changes", [components(torch=source("torch", build=SETUP)), components(**TRITONS)])
def test_what_no_step_can_be_made_of(changes: dict[str, Any]) -> None:
    with pytest.raises(XpuBuildError):
        plan_of(request(components=changes), FACTS)


def test_only_a_pytorch_of_sources_is_rehearsed() -> None:
    for changes in (
        {"components": {"torch": WHEEL}, "abi": {"default": 0}},
        {"components": {"ops": source("ops")}},
    ):
        context = make_context(request(**changes), FACTS)
        with pytest.raises(XpuBuildError):
            rehearsal(context, plan_of(request(**changes), FACTS))
    context = make_context(request(), resolved(COMMIT))
    found = rehearsal(context, plan_of(request(), resolved(COMMIT)))
    assert (found.component, found.source, found.step) == ("torch", "/ws/src/torch", "torch.configure")
    assert found.folders == ("/ws/src/torch/build", "/ws/build/rehearsal/torch")
    assert (found.environment["CC"], found.environment["CMAKE_GENERATOR"]) == ("/usr/bin/gcc", "Ninja")


@pytest.mark.parametrize(
    ("jobs", "number"),
    [("auto", "auto"), ("1", 1), ("008", 8), (str(MOST_JOBS), MOST_JOBS), ("4096", 4096)],
)
def test_numbers_of_jobs(jobs: str, number: int | str) -> None:
    assert PlanOptions(None, jobs=jobs).job_count == number


@pytest.mark.parametrize("jobs", ["", "0", "-1", "4097", "9" * 60, "x", "\u0664"])
def test_numbers_of_jobs_that_are_none(jobs: str) -> None:
    with pytest.raises(XpuBuildError):
        _ = PlanOptions(None, jobs=jobs).job_count


def test_options_that_exclude_each_other(tmp_path: Path) -> None:
    loaded = request().loaded
    for options in (
        PlanOptions(None, portable=True, editable=True),
        PlanOptions(None, portable=True, runtime=tmp_path / "nothing"),
    ):
        with pytest.raises(XpuBuildError):
            request_of(options, loaded)
    for options in (
        PlanOptions(None, conda_lock=tmp_path / "lock"),
        PlanOptions(None, env="conda", python="pypy"),
    ):
        with pytest.raises(XpuBuildError):
            conda_lock_of(options, Request(context_for("quickstart").request.loaded, tmp_path))
    assert conda_lock_of(PlanOptions(None), request()) is None


def test_every_option_is_in_the_request(tmp_path: Path) -> None:
    loaded = request().loaded
    assert request_of(PlanOptions(None, workspace=tmp_path), loaded) == Request(loaded, tmp_path)
    asked: dict[str, Any] = {
        "with_": ("a",), "without": ("b",), "target": "cpu", "variant": "full", "arch": ("pvc",),
        "allow_dirty": True,
    }  # fmt: skip
    whole = PlanOptions("x", tmp_path, cxx11_abi="0", editable=True, **asked)
    assert request_of(whole, loaded) == Request(loaded, tmp_path, cxx11_abi=0, editable=True, **asked)


@pytest.mark.parametrize("lock", ["nothing", "a folder", "latin"])
def test_a_conda_lock_that_cannot_be_read(tmp_path: Path, lock: str) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "latin").write_bytes(b"\xe4")
    wanted = CondaRequest(request().loaded.recipe, Layout(tmp_path), tmp_path, lock=tmp_path / lock)
    with pytest.raises(XpuBuildError):
        conda_lock(wanted, lambda _: None)


def test_a_recipe_without_conda_packages(tmp_path: Path) -> None:
    wanted = CondaRequest(request().loaded.recipe, Layout(tmp_path), tmp_path)
    with pytest.raises(XpuBuildError):
        conda_lock(wanted, lambda _: None)


@pytest.mark.parametrize("option", ["extra_path", "extra_library_path"])
def test_a_folder_of_a_site_that_is_not_there(tmp_path: Path, option: str) -> None:
    given: dict[str, Any] = {option: (tmp_path, tmp_path / "x", tmp_path / "y")}
    for target in ("xpu", "cpu"):
        with pytest.raises(XpuBuildError):
            site_folders(PlanOptions(None, **given), target)
