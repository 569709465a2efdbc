"""What is planned from: the host as a build sees it, and all external inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support.plan_files import target_for
from support.plans import pinned, target_of

from xpubuild.install.build_jobs import jobs_in
from xpubuild.install.build_steps import targets_in, wants_xpu
from xpubuild.install.choose import situation_of
from xpubuild.install.planner import Archive, OpenWheel, Repository, inputs_of
from xpubuild.install.target import OneapiFacts
from xpubuild.recipe.situation import Situation

COMMIT = "4" * 40
HERE = Situation(
    gpu="max", gpu_targets=("pvc",), driver="rolling", oneapi=("2025.3",), gcc="9", python=("3.9",)
)


def test_a_build_sees_its_own_interpreter_compiler_and_oneapi() -> None:
    asked = {"target": "xpu", "arch": ("pvc",), "cxx11_abi": "1"}
    target = target_of(asked, {"situation": HERE}, targets=["cpu", "xpu"])
    expected = replace(
        HERE, target="xpu", python=("3.11.7",), gcc="12.2", host_compiler="GNU", cxx11_abi=1, arch=("pvc",),
        components=("torch",),
    )  # fmt: skip
    assert situation_of(target) == expected

    def built_for(*arch: str) -> Situation:
        return situation_of(replace(target, options=replace(target.options, arch=arch)))

    assert built_for("bmg") == replace(expected, gpu=None, driver=None), "it is built for another machine"
    assert built_for("bmg", "pvc") == expected
    parts = ({"name": "compiler", "version": "2025.1"}, {"name": "tbb", "version": "2022.0"})
    assert situation_of(replace(target, oneapi=OneapiFacts(components=parts))).oneapi == ("2025.1",)
    assert situation_of(replace(target, oneapi=OneapiFacts())).oneapi is None
    for kind, gcc, name in (("gcc", "12.2", "GNU"), ("clang", None, "Clang"), ("icx", None, "IntelLLVM")):
        found = situation_of(replace(target, compilers=replace(target.compilers, kind=kind)))
        assert (found.gcc, found.host_compiler) == (gcc, name)
    assert situation_of(replace(target, arch=())).arch is None


CLONED = [
    {"url": "https://host/a.git", "path": "a", "commit": COMMIT, "when": "always"},
    {"url": "https://host/b.git", "path": "b", "commit": COMMIT, "when": "xpu"},
]
ARCHIVES = {
    "z": {"variable": "Z", "url": "https://host/z.zip", "sha256": "5" * 64},
    "given": {"variable": "GIVEN", "url": "https://host/g.zip"},
    "open": {"variable": "OPEN"},
}
EVERY = {
    "torch": pinned("torch", configure_time=CLONED),
    "ops": {"kind": "source", "dist": "ops", "source": {"embedded": "ops", "commit": COMMIT}},
    "triton": pinned("triton", more={"build": {"archives": ARCHIVES, "env": {"GIVEN": "/g", "Z": ""}}}),
    "wheel": {"kind": "wheel", "dist": "a-wheel", "version": "2", "indexes": ["https://host/i"]},
    "unused": pinned("unused", more={"optional": True}),
}


@pytest.mark.parametrize(("device", "cloned"), [("cpu", ["a"]), ("xpu", ["a", "b"])])
def test_every_external_input_is_named(device: str, cloned: list[str]) -> None:
    found = inputs_of(target_of(components=EVERY, targets=["cpu", "xpu"], target=device))
    torch, triton = found.repositories
    assert [(item.component, item.pin.url, item.pin.commit) for item in (torch, triton)] == [
        ("torch", "https://host/torch.git", COMMIT), ("triton", "https://host/triton.git", COMMIT),
    ]  # fmt: skip
    assert [item.path for item in torch.configure_time] == cloned
    assert triton.configure_time == Repository("triton", triton.pin).configure_time == ()
    assert [(item.component, item.pin.commit) for item in found.embedded] == [("ops", COMMIT)]
    assert (found.recipe, found.python_version, found.requirements) == ("mine", "3.11.7", ())
    assert found.wheels == (OpenWheel("wheel", "a-wheel", "2", ("https://host/i",)),)
    assert found.archives == (
        Archive("triton", "open", None),
        Archive("triton", "z", "https://host/z.zip", "5" * 64),
    )
    assert [item.key for item in found.archives] == ["triton.open", "triton.z"]


def test_requirement_files_come_with_the_indexes_of_their_wheels() -> None:
    target = target_for("quickstart")
    found = {item.name: item for item in inputs_of(target).requirements}
    assert tuple(found) == target.requirement_names()
    assert {name: item.text for name, item in found.items()} == target.requirements
    torch = target.component("torch")
    indexes = {name: item.indexes for name, item in found.items() if item.indexes}
    assert indexes == {torch.requirements: tuple(torch.indexes)}


def test_numbers_of_jobs_are_read_of_what_builds_are_told() -> None:
    told: dict[str, Any] = {"MAX_JOBS": "3", "CMAKE_BUILD_PARALLEL_LEVEL": "4"}
    assert (jobs_in(told), jobs_in({"CMAKE_BUILD_PARALLEL_LEVEL": "4"}), jobs_in({})) == (3, 4, None)
    assert [jobs_in({"MAX_JOBS": text}) for text in ("", "0", "1", "-1", "x", "\u0664", "\u00b2")] == [
        None, None, 1, None, None, None, None,
    ]  # fmt: skip


def test_targets_of_kernels_are_those_of_the_environment() -> None:
    off = [wants_xpu({"USE_XPU": text}) for text in ("0", "OFF", "no", "1", "on")]
    assert off == [False, False, False, True, True]
    assert wants_xpu({})
    assert targets_in({"TORCH_XPU_ARCH_LIST": " pvc, bmg;;dg2 "}) == ("pvc", "bmg", "dg2")
    assert targets_in({}) == ()
