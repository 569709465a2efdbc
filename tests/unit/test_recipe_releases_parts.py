"""What each release is built of and needs, paired as upstream pairs it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from support.releases import BRANCH, EVERY, IN_TABLES, recipe_of, source

from xpubuild.recipe.load import requirement_file
from xpubuild.recipe.model import Component, Recipe

#: torch -> torchvision, torchaudio, triton for XPU.
PAIRS = {
    "2.4.0": ("0.19.0", "2.4.0", "3.0.0"), "2.4.1": ("0.19.1", "2.4.1", "3.0.0"),
    "2.5.0": ("0.20.0", "2.5.0", "3.1.0"), "2.5.1": ("0.20.1", "2.5.1", "3.1.0"),
    "2.6.0": ("0.21.0", "2.6.0", "3.2.0"), "2.7.0": ("0.22.0", "2.7.0", "3.3.0"),
    "2.7.1": ("0.22.1", "2.7.1", "3.3.1"), "2.8.0": ("0.23.0", "2.8.0", "3.4.0"),
    "2.9.0": ("0.24.0", "2.9.0", "3.5.0"), "2.9.1": ("0.24.1", "2.9.1", "3.5.0"),
    "2.10.0": ("0.25.0", "2.10.0", "3.6.0"), "2.11.0": ("0.26.0", "2.11.0", "3.7.0"),
    "2.12.0": ("0.27.0", "2.11.0", "3.7.1"), "2.12.1": ("0.27.1", "2.11.0", "3.7.1"),
    "2.13.0": ("0.28.0", "2.11.0", "3.7.2"), "2.14.0": ("0.29.0", "2.11.0", "3.8.0"),
    "2.14.1": ("0.29.1", "2.11.0", "3.8.0"), "2.15.0": ("0.29.2", "2.11.0", "3.9.0"),
}  # fmt: skip


def number(name: str) -> Version:
    return Version(name) if name != "main" else Version("9999")


def clone(recipe: Recipe, repository: str) -> Any:
    found = [item for item in source(recipe, "torch").configure_time if repository in item.url]
    return found[0] if found else None


@pytest.mark.parametrize("name", PAIRS)
def test_the_versions_that_upstream_pairs(name: str) -> None:
    parts = recipe_of(name).recipe.components
    assert tuple(parts[key].version for key in ("vision", "audio", "triton")) == PAIRS[name]
    (wanted,) = parts["vision"].requires
    loose = number(name) >= Version("2.14.1")
    assert wanted == ("torch>=2.14.0" if loose else f"torch=={name}")
    # 2.11.0 is the last torchaudio; it is made for the stable ABI and names no torch.
    assert parts["audio"].requires == ([f"torch=={name}"] if number(name) < Version("2.11") else [])


@pytest.mark.parametrize("name", [name for name in EVERY if name != BRANCH])
def test_what_goes_with_a_release(name: str) -> None:
    recipe = recipe_of(name).recipe
    parts = {key: recipe.components[key] for key in ("vision", "audio", "triton")}
    assert all(part.version and part.optional and part.needs == ["torch"] for part in parts.values())
    assert source(recipe, "vision").ref == f"v{parts['vision'].version}"
    assert source(recipe, "audio").ref == f"v{parts['audio'].version}"
    for part in parts.values():
        assert all(name in Requirement(text).specifier for text in part.requires)


@pytest.mark.parametrize("name", EVERY)
def test_wheels_say_the_version_that_is_built(name: str) -> None:
    components = recipe_of(name).recipe.components
    env = {key: part.build.env for key, part in components.items()}
    assert env["torch"].get("PYTORCH_BUILD_VERSION") == (None if name == "main" else name)
    assert env["audio"]["BUILD_VERSION"] == components["audio"].version
    if name != "main":
        assert env["vision"]["BUILD_VERSION"] == components["vision"].version
        assert env["vision"].get("PYTORCH_VERSION", name) == name
    assert env["triton"]["TRITON_WHEEL_NAME"] == components["triton"].dist
    assert (components["triton"].dist == "pytorch-triton-xpu") == (number(name) < Version("2.10"))
    assert components["triton"].targets == ("xpu",)
    assert components["triton"].build.source_dir == ("python" if number(name) < Version("2.8") else ".")


def test_ipex_is_there_as_long_as_it_was_released() -> None:
    having = {name: recipe_of(name).recipe.components.get("ipex") for name in EVERY}
    names = [name for name, part in having.items() if part is not None]
    assert names == ["2.5.1", "2.5.0", "2.6.0", "2.7.1", "2.7.0", "2.8.0"]
    for part in filter(None, having.values()):
        assert (part.optional, part.end_of_life, part.targets) == (True, "2026-03", ("xpu",))
    # 2.7.10 was made for 2.7.0 alone.
    assert _ipex("2.7.1").requires == _ipex("2.7.0").requires == ["torch==2.7.0"]


def _ipex(name: str) -> Component:
    return recipe_of(name).recipe.components["ipex"]


@pytest.mark.parametrize("name", EVERY)
def test_the_ops_extension_comes_last(name: str) -> None:
    recipe = recipe_of(name).recipe
    assert list(recipe.components)[-1] == "ops"
    assert recipe.components["ops"].needs == ["torch"]
    assert recipe.components["ops"].optional
    assert recipe.verify.require == ["ops"]


@pytest.mark.parametrize("name", IN_TABLES)
def test_the_rule_of_the_abi(name: str) -> None:
    abi = recipe_of(name).recipe.abi
    assert abi.default == 1
    assert abi.honoured == (Version("2.5") <= number(name) < Version("2.8"))
    assert abi.note


@pytest.mark.parametrize("name", IN_TABLES)
def test_what_the_host_needs_moves_with_the_release(name: str) -> None:
    needs, release = recipe_of(name).recipe.needs, number(name)
    assert needs.cxx_standard == (17 if release < Version("2.12") else 20)
    assert needs.gcc == (">=9.3" if release < Version("2.12") else ">=11.3")
    assert needs.host_compiler == "GNU"
    old_projects = release <= Version("2.7.0")
    # 2.5 asks if(LINUX), which CMake sets from 3.25 on.
    assert needs.cmake == (
        ">=3.25,<4"
        if (release.major, release.minor) == (2, 5)
        else ">=3.18,<4"
        if old_projects
        else ">=3.18"
        if release < Version("2.8")
        else ">=3.20"
        if release < Version("2.9")
        else ">=3.27"
    )
    assert needs.oneapi is not None
    assert "flex" not in needs.gpus
    assert needs.gpus[0] == "max"
    assert ("panther-lake" in needs.gpus) == (release >= Version("2.10"))
    assert needs.drivers[0] == ("lts-2350" if release < Version("2.9") else "rolling")
    order = [item for item in needs.oneapi_components if item in ("compiler", "ccl", "mpi")]
    assert order == (["compiler", "mpi", "ccl"] if release >= Version("2.7") else ["compiler"])
    assert "mkl" not in needs.oneapi_components
    requires = source(recipe_of(name).recipe, "torch").requires_python
    assert requires is None or Version("3.12") in Requirement(f"x {requires}").specifier


@pytest.mark.parametrize("name", EVERY)
def test_repositories_that_the_build_clones(name: str) -> None:
    recipe, release = recipe_of(name).recipe, number(name)
    ops = clone(recipe, "torch-xpu-ops")
    assert (ops.path, ops.pin_file) == ("third_party/torch-xpu-ops", "third_party/xpu.txt")
    assert ops.path in source(recipe, "torch").made_by_build
    # 2.6 and older build oneDNN for the GPU from the submodule.
    assert (clone(recipe, "oneDNN") is not None) == (release >= Version("2.7"))
    tla = clone(recipe, "sycl-tla")
    assert (tla is not None) == (release >= Version("2.10"))
    assert bool(recipe.components["torch"].build.large_units) == (tla is not None)
    assert all(item.when == "xpu" for item in source(recipe, "torch").configure_time)


@pytest.mark.parametrize("name", IN_TABLES)
def test_the_pins_of_what_the_build_clones(name: str) -> None:
    recipe = recipe_of(name).recipe
    assert (clone(recipe, "torch-xpu-ops").commit is None) == (name in ("2.15.0", BRANCH))
    tla = clone(recipe, "sycl-tla")
    refs = {"2.10": "v0.6", "2.11": "v0.6", "2.12": "v0.8", "2.13": "v0.9", "2.14": "v0.9"}
    assert tla is None or tla.ref == refs.get(name.rpartition(".")[0])


@pytest.mark.parametrize("name", IN_TABLES)
def test_kernels_are_compiled_for_max_and_upstreams_list_is_known(name: str) -> None:
    recipe, release = recipe_of(name).recipe, number(name)
    assert recipe.arch == ["pvc"]
    assert recipe.arch_upstream[0] == "pvc"
    assert ("bmg" in recipe.arch_upstream) == (release >= Version("2.7"))
    assert ("ptl-h" in recipe.arch_upstream) == (release >= Version("2.10"))


@pytest.mark.parametrize("name", IN_TABLES)
def test_switches_follow_the_release(name: str) -> None:
    recipe, release = recipe_of(name).recipe, number(name)
    env = {**recipe.env, **recipe.components["torch"].build.env}
    assert (env["USE_XPU"], env["USE_CUDA"], env["USE_ROCM"], env["BUILD_TEST"]) == ("{xpu}", 0, 0, 0)
    assert ("USE_XCCL" in env) == (release >= Version("2.7"))
    assert ("USE_ONEMKL" in env) == (Version("2.7") <= release < Version("2.8"))
    assert ("USE_ONEMKL_XPU" in env) == (release >= Version("2.8"))
    assert ("XPU_ENABLE_KINETO" in env) == (release >= Version("2.14"))
    assert not {"USE_PTI", "USE_AOT_DEVLIST", "USE_XETLA", "BUILD_WITH_CPU"} & env.keys()
    vision, audio = recipe.components["vision"].build.env, recipe.components["audio"].build.env
    assert vision["FORCE_CUDA"] == vision["TORCHVISION_USE_NVJPEG"] == 0
    assert ("TORCHVISION_USE_FFMPEG" in vision) == (release < Version("2.11"))
    assert ("BUILD_SOX" in audio) == ("USE_FFMPEG" in audio) == (release < Version("2.9"))


@pytest.mark.parametrize("name", EVERY)
def test_variants_name_their_switches(name: str) -> None:
    recipe = recipe_of(name).recipe
    assert set(recipe.variants) == {"full", "dev", "minimal"}
    switches = {key: variant.env["torch"] for key, variant in recipe.variants.items()}
    shared = {"USE_MKLDNN", "USE_FBGEMM", "USE_XNNPACK", "USE_NNPACK", "USE_PYTORCH_QNNPACK", "USE_ITT"}
    assert all(shared <= env.keys() for env in switches.values())
    assert all(switches["full"][switch] == 1 for switch in shared)
    assert ("USE_XCCL" in switches["minimal"]) == (number(name) >= Version("2.7"))
    assert switches["minimal"]["USE_DISTRIBUTED"] == 0
    # Without oneDNN there are no convolutions on XPU.
    assert switches["minimal"]["USE_MKLDNN"] == "{xpu}"


def test_what_a_release_lacks() -> None:
    lost = {name: [item.feature for item in recipe_of(name).recipe.loses] for name in EVERY}
    for name, features in lost.items():
        release = number(name)
        assert any("flash attention" in item for item in features) == (release >= Version("2.10"))
        # 2.11 lacks it with oneAPI 2025.2 alone.
        assert any("oneCCL" in item for item in features) == (release < Version("2.7") or name == "2.11.0")
    assert any("symmetric memory" in item for item in lost["2.13.0"])
    refusing = [name for name in EVERY if recipe_of(name).recipe.refuses]
    assert all(number(name) < Version("2.9") for name in refusing)


@pytest.mark.parametrize("name", EVERY)
def test_mkl_is_the_one_that_the_requirements_pin(name: str) -> None:
    loaded = recipe_of(name)
    tools = loaded.recipe.toolchain
    (file,) = tools.requirements
    pins = re.findall(r"^(\S+)==(\S+)", requirement_file(loaded, file).read_text("utf-8"), re.MULTILINE)
    found: dict[str, list[Version]] = {}
    for dist, version in pins:
        found.setdefault(dist, []).append(Version(version))
    assert found["mkl-static"] == found["mkl-include"] == [Version(str(tools.mkl))]
    (setuptools,), (cmake,) = found["setuptools"], found["cmake"]
    limits = [(">=77.0.3,<82", "2.13"), (">=70.1,<82", "2.10"), (">=70.1,<80", "2.9"), (">=62.3,<80", "2.4")]
    limit = next(limit for limit, since in limits if number(name) >= Version(since))
    assert setuptools in Requirement(f"setuptools {limit}").specifier
    assert loaded.recipe.needs.cmake is not None
    assert cmake in Requirement(f"cmake {loaded.recipe.needs.cmake}").specifier
