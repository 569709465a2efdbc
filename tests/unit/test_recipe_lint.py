"""Build switches held against the releases that read them, and the data that says which do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from xpubuild.recipe import lint as lint_module
from xpubuild.recipe.lint import lint, torch_release, unused_switches
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import switches

#: What every recipe has to say, so that a test is about its own switch alone.
EXPLICIT: dict[str, str | int] = {
    "USE_XPU": "{xpu}", "USE_CUDA": 0, "USE_ROCM": 0, "USE_DISTRIBUTED": 1, "USE_MPI": 0, "USE_KINETO": 1,
}  # fmt: skip
XCCL = {"USE_XCCL": "{xpu}"}
NEWER = {**XCCL, "USE_ONEMKL_XPU": 1}


def recipe(
    release: str | None = "2.6.0", switch: dict[str, Any] | None = None, source: Any = None, **changes: Any
) -> Recipe:
    torch = {
        "kind": "source",
        "dist": "torch",
        "source": {"url": "/x", **(source or {})},
        "build": {"env": {**EXPLICIT, **(switch or {})}},
    }
    document = {"schema": 1, "name": "line", "title": "t", "release": release, "arch": ["pvc"]}
    return Recipe.model_validate({**document, "components": {"torch": torch}, **changes})


def problems(*arguments: Any, **options: Any) -> list[str]:
    return lint(recipe(*arguments, **options))[0]


def test_a_recipe_that_says_what_it_wants_is_in_order() -> None:
    assert problems("2.6.0") == []
    assert problems("2.7.1", XCCL) == []
    assert problems("2.14.0", NEWER) == []
    assert problems(None, NEWER, {"ref": "main"}) == []


@pytest.mark.parametrize("name", ["USE_PTI", "USE_AOT_DEVLIST", "USE_XETLA", "BUILD_WITH_CPU"])
def test_names_of_another_project_are_refused(name: str) -> None:
    (problem,) = problems("2.6.0", {name: 1})
    assert f"{name} is set, which PyTorch does not use" in problem
    assert "intel-extension-for-pytorch" in problem


@pytest.mark.parametrize(
    ("release", "env", "said"),
    [
        ("2.6.0", {"USE_ONEMKL": 1}, "USE_ONEMKL is set, which 2.6.0 does not use (2.7 only)"),
        ("2.8.0", {**NEWER, "USE_ONEMKL": 1}, "from 2.8 it is USE_ONEMKL_XPU"),
        ("2.7.0", {**XCCL, "USE_ONEMKL_XPU": 1}, "which 2.7.0 does not use (2.8 and later)"),
        ("2.6.0", XCCL, "USE_XCCL is set, which 2.6.0 does not use"),
        ("2.13.0", {**NEWER, "XPU_ENABLE_KINETO": 0}, "use USE_KINETO=0"),
        ("2.6.0", {"XPU_ENABLE_KINETO": 0}, "which 2.6.0 does not use"),
        ("2.8.0", {**NEWER, "_GLIBCXX_USE_CXX11_ABI": 1}, "from 2.8 it is always 1"),
        ("2.14.0", {**NEWER, "BUILD_SPLIT_KERNEL_LIB": 1}, "(2.7 to 2.13)"),
        ("2.12.0", {**NEWER, "XPU_SYCL_COMPILER": "icx"}, "which 2.12.0 does not use"),
        ("2.13.0", {**NEWER, "XPU_SYCL_COMPILER": "icpx"}, "XPU_SYCL_COMPILER=icpx is not icx or dpclang"),
        ("2.14.0", {**NEWER, "USE_SYCLTLA": 0}, "it cannot be overridden"),
        ("2.6.0", {"ZE_AFFINITY_MASK": "0"}, "it is used when torch runs"),
        ("2.9.0", {**NEWER, "XPU_ONEAPI_PATH": "/opt"}, "only upstream's CI uses it"),
        ("2.6.0", {"USE_KINETO": "maybe"}, "USE_KINETO=maybe is not 0, 1, OFF or ON"),
        ("2.6.0", {"MAX_JOBS": "0"}, "MAX_JOBS=0 is not a number of at least 1"),
        ("2.6.0", {"TORCH_XPU_ARCH_LIST": "pvc bmg"}, "is not AOT targets separated by commas"),
        ("2.6.0", {"TORCH_XPU_ARCH_LIST": ""}, "taken for none given"),
        ("2.7.0", {**XCCL, "TORCH_XPU_ARCH_LIST": ""}, "device linker"),
        ("2.8.0", {**NEWER, "TORCH_XPU_ARCH_LIST": ""}, "say none"),
        ("2.7.0", {**XCCL, "TORCH_XPU_ARCH_LIST": "none"}, "only 2.8 and later"),
        ("2.6.0", {"USE_XPU": 1}, "USE_XPU=1 for target cpu; write it as '{xpu}'"),
        ("2.6.0", {"USE_XPU": 0}, "USE_XPU=0 for target xpu; write it as '{xpu}'"),
        # Those that do what they say.
        ("2.7.0", {**XCCL, "USE_ONEMKL": 1}, ""),
        ("2.14.0", {**NEWER, "XPU_ENABLE_KINETO": 0}, ""),
        ("2.13.0", {**NEWER, "XPU_ENABLE_KINETO": 1}, ""),
        ("2.7.1", {**XCCL, "_GLIBCXX_USE_CXX11_ABI": "{cxx11_abi}"}, ""),
        ("2.8.0", {**NEWER, "TORCH_XPU_ARCH_LIST": "none"}, ""),
        ("2.6.0", {"TORCH_XPU_ARCH_LIST": "{arch}"}, ""),
        ("2.6.0", {"USE_KINETO": "off"}, ""),
        ("2.6.0", {"CMAKE_PREFIX_PATH": "{env}:${ORIGIN}", "BLAS": "MKL"}, ""),
        ("2.15.0", {**NEWER, "USE_SYCLTLA": 0}, ""),
    ],
)
def test_a_switch_does_what_it_says_or_is_a_problem(release: str, env: dict[str, Any], said: str) -> None:
    found = problems(release, env)
    assert len(found) == bool(said), found
    assert said in "".join(found)


def test_a_switch_of_the_only_target_may_be_a_number() -> None:
    assert problems("2.6.0", {"USE_XPU": 1}, targets=["xpu"]) == []
    assert problems("2.6.0", {"USE_XPU": 0}, targets=["cpu"], target="cpu") == []
    assert len(problems("2.6.0", {"USE_XPU": 0}, targets=["xpu"])) == 1


@pytest.mark.parametrize("name", sorted(EXPLICIT))
def test_what_depends_on_the_host_must_be_said(name: str) -> None:
    env = {key: value for key, value in EXPLICIT.items() if key != name}
    torch = {"kind": "source", "dist": "torch", "source": {"url": "/x"}, "build": {"env": env}}
    (problem,) = problems("2.6.0", components={"torch": torch})
    assert f"{name} is not set" in problem
    # A value for all components counts as well, and a variant need not repeat it.
    common = {"components": {"torch": torch}, "env": {name: EXPLICIT[name]}}
    variants = {"dev": {"env": {"torch": {"BUILD_TEST": 1}}}}
    assert problems("2.6.0", **common, variants=variants) == []


def test_variants_are_looked_at() -> None:
    variants = {"small": {"env": {"torch": {"USE_KINETO": "none", "USE_XETLA": 0}}}}
    found = problems("2.6.0", variants=variants)
    assert len(found) == 2
    assert all(text.startswith("torch (variant small): ") for text in found)


def test_the_release_is_taken_from_the_tag_where_the_recipe_has_none() -> None:
    assert torch_release(recipe(None, source={"ref": "v2.6.0"})) == "2.6.0"
    assert torch_release(recipe(None, source={"ref": "refs/tags/v2.16.0-rc3"})) == "2.16.0-rc3"
    assert torch_release(recipe(None, source={"ref": "main"})) is None


def test_the_abi_cannot_be_chosen_from_2_8_on() -> None:
    (problem,) = problems("2.8.0", NEWER, abi={"honoured": True})
    assert "abi.honoured" in problem
    assert problems("2.7.0", XCCL, abi={"honoured": True}) == []
    for release, source in (("2.8.0", None), (None, {"ref": "v2.8.0"})):
        (problem,) = problems(release, NEWER, source, abi={"default": 0})
        assert problem == "abi.default is 0, but 2.8.0 always builds the C++11 ABI 1 (since 2.8)"
    assert problems("2.7.0", XCCL, abi={"default": 0}) == []


def test_a_misspelt_switch_is_pointed_out() -> None:
    found, (warning,) = lint(recipe("2.6.0", {"TORCH_XPU_ARCHLIST": "pvc", "FROBNICATE": 1}))
    assert found == []
    assert "TORCH_XPU_ARCHLIST" in warning
    assert "TORCH_XPU_ARCH_LIST is" in warning


def test_the_data_names_every_variable_once() -> None:
    text = Path(lint_module.__file__).with_name("switches.yaml").read_text("utf-8")
    names = [line.split()[-1] for line in text.splitlines() if line.startswith("  - name:")]
    assert len(names) == len(set(names)) == len(switches())


def test_variables_of_the_caller_that_no_build_reads() -> None:
    shell = {"USE_XPU": "0", "MAX_JOBS": "64", "USE_XETLA": "1", "CC": "icx", "HOME": "/h", "USE_XCCL": "1"}
    shell |= {"ZE_AFFINITY_MASK": "1", "MKLROOT": "/opt/intel"}
    assert unused_switches(recipe("2.6.0"), {"build"}, shell, {"HOME": "/h"}) == ("MAX_JOBS", "USE_XPU")
    assert unused_switches(recipe("2.7.0"), {"build"}, shell, {"MAX_JOBS": "64"}) == ("USE_XCCL", "USE_XPU")
    assert unused_switches(recipe("2.6.0"), {"runtime"}, shell, {}) == ("ZE_AFFINITY_MASK",)
