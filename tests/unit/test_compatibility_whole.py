"""Every reason of the solver, from a made-up recipe and host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from xpubuild.machine.versions import fits, newest
from xpubuild.recipe.aot_targets import aot_lists
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.matrix import row, when_text
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.releases import Release
from xpubuild.recipe.situation import Situation

#: Nothing is wrong with it on the host of GOOD.
BASE: dict[str, Any] = {
    "schema": 1, "name": "9.9", "title": "made up", "release": "9.9.0", "arch": ["pvc"],
    "needs": {
        "python": ">=3.10,<3.15", "gcc": ">=11,<15", "host_compiler": "GNU", "cmake": ">=3.27",
        "oneapi": ">=2025.3,<2026.1", "drivers": ["lts2-2523", "rolling"], "gpus": ["max", "arc-b"],
        "cxx_standard": 20,
    },
    "abi": {"default": 1, "note": "see its CMakeLists.txt"},
    "components": {
        "torch": {"kind": "source", "dist": "torch", "source": {"url": "/x", "version": "9.9.0a0"}},
        "triton": {"kind": "wheel", "dist": "triton-xpu", "version": "3.9", "indexes": ["https://i"],
                   "cxx11_abi": 1, "optional": True},
        "vision": {"kind": "source", "dist": "torchvision", "version": "0.99.0", "optional": True,
                   "requires": ["torch==9.9.0", "not a requirement >", "pillow>=5"],
                   "source": {"url": "/v"}},
        "ops": {"kind": "source", "dist": "xpubuild-ops", "source": {"embedded": "ops"}, "targets": ["xpu"]},
    },
    "arch_fixed": [{"what": "its kernels", "targets": ["pvc", "bmg"], "unless": ["dg2"],
                    "when": {"oneapi": ">=2025.3"}, "instead": "build without them"}],
    "loses": [{"feature": "attention", "when": {"gcc": "<13"}, "note": "a note"},
              {"feature": "profiling", "driver": "rolling", "note": "with this driver"}],
    "refuses": [{"why": "it hangs", "when": {"gcc": ">=14", "oneapi": "<2025.4"}},
                {"why": "it crashes", "driver": "rolling", "gpu": "arc-b"}],
    "toolkits": [
        {"oneapi": ">=2025.3,<2025.4", "standing": "pairing", "source": "its CI"},
        {"oneapi": ">=2026.0,<2026.1", "standing": "tolerated", "source": "a pull", "note": "slow"},
        {"oneapi": ">=2025.1,<2025.2", "standing": "patched", "source": "a site", "patches": [
            {"component": "torch", "action": "revert", "url": "https://p/1", "what": "drops it"}]},
    ],
    "facts": {
        "needs": {"source": "its docs", "confidence": "verified"},
        "needs.gcc": {"source": "its CI", "confidence": "inferred"},
        "arch": {"source": "its script"}, "arch_fixed": {"source": "its CMake"},
        "components.vision": {"source": "its setup.py"}, "refuses.1": {"source": "an issue"},
        "abi": {"source": "its CMakeLists.txt"}, "targets": {"source": "us"},
    },
}  # fmt: skip
GOOD = Situation(
    gpu="max", driver="lts2-2523", oneapi=("2025.3.1",), python=("3.12.4",), gcc="13.2.0",
    host_compiler="GNU", cmake="3.31.0",
)  # fmt: skip


def recipe(**changes: Any) -> Recipe:
    needs = {**BASE["needs"], **changes.pop("needs", {})}
    return Recipe.model_validate({**BASE, **changes, "needs": needs})


UNKNOWN = {"confidence": "unknown", "source": "nobody says"}
OPEN = {f"needs.{name}": UNKNOWN for name in ("gcc", "oneapi", "gpus", "drivers")}


@pytest.mark.parametrize(
    "here",
    [
        {}, {"target": "cpu"}, {"target": "cpu", "host_compiler": "Clang", "gcc": None},
        {"oneapi": ()}, {"oneapi": None}, {"oneapi": ("2024.2", "2026.1")}, {"oneapi": ("2026.0.0",)},
        {"oneapi": ("2025.1.2",)}, {"oneapi": ("2025.1", "2025.3.0")},
        {"python": ()}, {"python": None}, {"python": ("3.9.1", "3.16")}, {"python": ("3.9", "3.11")},
        {"gcc": "10.2"}, {"gcc": "12.2.0"}, {"gcc": "14.1.0"}, {"gcc": None}, {"gcc": "15"},
        {"host_compiler": "IntelLLVM", "gcc": None}, {"host_compiler": None, "gcc": None},
        {"cmake": "3.20.0"}, {"cmake": None}, {"cxx11_abi": 0}, {"cxx11_abi": 1},
        {"gpu": "flex"}, {"gpu": None}, {"driver": "lts-2350"}, {"driver": None},
        {"driver": "rolling", "gpu": "arc-b"}, {"driver": "rolling"}, {"driver": None, "gpu": "arc-b"},
        {"arch": ("bmg",)}, {"arch": ("none",)}, {"arch": ("none", "pvc")}, {"arch": ("PVC",)},
        {"arch": ("a fridge",)}, {"arch": ("dg2",)}, {"arch": ("0x0bd5", "12.60.7", "bmg-g21")},
        {"gpu_targets": ("bmg", "lnl-m"), "arch": ("pvc", "dg2")}, {"ocloc_lacks": ("bmg",)},
        {"ocloc_lacks": ("pvc",)}, {"ocloc_lacks": ()}, {"arch": ("bmg",), "driver": "lts-2350"},
        {"components": ("torch", "vision", "gone")}, {"components": ("triton",), "cxx11_abi": 0},
        {"versions": {"triton": "3.9.1", "vision": "0.99", "torch": "9.9.0+xpu"}},
        {"versions": {"triton": "3.8", "vision": "newest", "gone": "1", "ops": "0.1"}},
    ],
    ids=repr,
)  # fmt: skip
def test_each_situation_has_its_verdict(here: dict[str, Any]) -> None:
    verdict = solve(recipe(), replace(GOOD, **here))
    assert verdict.refused == any(reason.answer == "no" for reason in verdict.against())
    assert all(reason.text for reason in (*verdict.reasons, *verdict.notes()))
    assert all(loss.text for loss in verdict.loses)


@pytest.mark.parametrize(
    ("changes", "here"),
    [
        ({"facts": OPEN, "needs": {"gcc": None, "oneapi": None, "gpus": [], "drivers": []}}, {}),
        ({"needs": {"gcc": None}}, {"host_compiler": "Clang", "gcc": None, "target": "cpu"}),
        ({"needs": {"gcc": None, "host_compiler": "any"}}, {"host_compiler": "Clang", "gcc": None}),
        ({"needs": {"gcc": None}}, {"gcc": None, "host_compiler": None}),
        ({"targets": ["cpu"], "target": "cpu"}, {}), ({"release": "2.7.0"}, {"arch": ("none",)}),
        ({"release": "2.8.0"}, {"arch": ("none",)}), ({"release": None}, {"arch": ("none",)}),
        ({"abi": {"honoured": True}}, {"cxx11_abi": 0}), ({"abi": {"default": 0}}, {"cxx11_abi": 1}),
        ({"abi": {"default": 0}}, {"components": ("triton",)}),
        ({"toolkits": [BASE["toolkits"][1]]}, {"oneapi": ("2026.0.1",)}),
        ({"release": "9.8.0"}, {"components": ("vision",)}),
        ({"arch": [], "arch_upstream": ["bmg"]}, {}), ({"arch": [], "arch_fixed": []}, {}),
        ({"components": {**BASE["components"], "ops": {**BASE["components"]["ops"], "end_of_life": "2025"}}},
         {}),
        ({"components": {**BASE["components"], "torch": {"kind": "source", "dist": "torch",
          "source": {"url": "/x"}}}, "release": None},
         {"components": ("vision",), "versions": {"torch": "1"}}),
    ],
)  # fmt: skip
def test_another_recipe_has_its_verdict(changes: dict[str, Any], here: dict[str, Any]) -> None:
    assert solve(recipe(**changes), replace(GOOD, **here)).builds in ("yes", "no", "unknown")


@pytest.mark.parametrize(
    "here", [{}, {"target": "cpu"}, {"arch": ("none",)}, {"arch": ("dg2",)}, {"oneapi": ("2025.1",)}]
)
def test_the_lists_that_ocloc_is_given(here: dict[str, Any]) -> None:
    situation = replace(GOOD, **here)
    oneapi = situation.oneapi[0] if situation.oneapi else None
    assert isinstance(aot_lists(Case(recipe(), situation, oneapi, "3.12")), tuple)


def test_a_row_of_the_matrix_has_all_that_the_recipe_says() -> None:
    release = Release("9.9.0", "9.9", recipe())
    assert row(release)["verdict"] is None
    assert row(release, GOOD)["verdict"]["builds"] == "yes"


def test_conditions_and_versions_in_words() -> None:
    assert when_text({"gcc": "<13", "oneapi": ">=2025"}, "rolling", "max") == (
        "GCC <13 and oneAPI >=2025 and driver rolling and GPU max"
    )
    assert when_text({"python": "<3.12"}) == "Python <3.12"
    assert newest(["2024.2", "what", "2025.10", "2025.9"]) == ("2025.10", "2025.9", "2024.2", "what")


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("11", ">=11.3", "unknown"), ("11.3", ">=11.3", "yes"), ("11", "<12", "yes"), ("11", "!=11.*", "no"),
        ("11", "<11.0.1", "unknown"), ("11.2+", ">=11.2", "yes"), ("11.2rc1", ">=11.2.1", "no"),
        ("11+local", "<11.5", "yes"), ("11", ">=10,<11.9", "unknown"), ("nothing", ">=1", "unknown"),
        ("nothing", None, "yes"), ("11", "==11.*", "yes"), ("11", ">=11", "yes"),
        ("11", "==11.0", "unknown"), ("11", "<=11", "unknown"), ("11.4", "<11.4.1", "unknown"),
    ],
)  # fmt: skip
def test_three_valued_comparison(version: str, wanted: str | None, answer: str) -> None:
    assert fits(version, wanted) == answer
