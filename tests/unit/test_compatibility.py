"""Every reason of the solver, from a made-up recipe and host, and how upstream stands to a oneAPI."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version
from pydantic import ValidationError

from xpubuild.machine.versions import fits, newest
from xpubuild.recipe.aot_targets import aot_lists
from xpubuild.recipe.conditions import Case, condition_text
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.limits import Toolkit
from xpubuild.recipe.matrix import matrix_document
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.releases import releases
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.resources import recipes_dir
from xpubuild.ui.recipe_views import verdict as sentence

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
        "triton": {"kind": "wheel", "dist": "triton-xpu", "version": "3.9", "requirements": "t.txt",
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
    host_compiler="GNU",
)  # fmt: skip


def recipe(**changes: Any) -> Recipe:
    needs = {**BASE["needs"], **changes.pop("needs", {})}
    return Recipe.model_validate({**BASE, **changes, "needs": needs})


UNKNOWN = {"confidence": "unknown", "source": "nobody says"}
OPEN = {f"needs.{name}": UNKNOWN for name in ("gcc", "oneapi", "gpus", "drivers")}
NO_NEEDS = {"gcc": None, "oneapi": None, "gpus": [], "drivers": []}


def said(verdict: Verdict) -> set[str]:
    """Return constraint, concern and answer of each reason."""
    return {f"{item.constraint} {item.concern} {item.answer}" for item in verdict.reasons}


@pytest.mark.parametrize(
    ("here", "expected"),
    [
        ({}, set()), ({"target": "cpu", "host_compiler": "Clang", "gcc": None}, {"host_compiler builds no"}),
        ({"oneapi": ()}, {"oneapi builds no"}), ({"oneapi": None}, {"oneapi builds unknown"}),
        ({"oneapi": ("2026.0.0",)}, {"oneapi note no"}), ({"oneapi": ("2025.1", "2025.3.0")}, set()),
        ({"python": ()}, {"python builds no"}), ({"python": None}, {"python builds unknown"}),
        ({"python": ("3.9", "3.11")}, set()), ({"gcc": "10.2"}, {"gcc builds no"}),
        ({"gcc": "14.1.0"}, {"refused builds no"}),
        ({"gcc": None}, {"gcc builds unknown", "refused builds unknown"}),
        ({"host_compiler": None, "gcc": None}, {"host_compiler builds unknown", "refused builds unknown"}),
        ({"cxx11_abi": 0}, {"cxx11_abi builds no"}), ({"gpu": "flex"}, {"gpu runs no"}),
        ({"gpu": "arc-b", "arch": ("pvc",)}, {"arch note no"}),
        ({"gpu": None}, {"gpu runs unknown"}), ({"driver": None}, {"driver runs unknown"}),
        ({"driver": "rolling", "gpu": "arc-b"}, {"refused runs no"}),
        ({"driver": None, "gpu": "arc-b"}, {"driver runs unknown", "refused runs unknown"}),
        ({"arch": ("none", "pvc")}, {"arch builds no"}), ({"arch": ("PVC",)}, {"arch builds no"}),
        ({"arch": ("bmg",)}, {"arch note no"}), ({"arch": ("none",)}, {"arch note no"}),
        ({"ocloc_lacks": ("bmg",)}, {"ocloc builds no"}), ({"ocloc_lacks": ()}, set()),
        ({"components": ("torch", "gone")}, {"gone builds no"}),
        ({"components": ("triton",), "cxx11_abi": 0}, {"cxx11_abi builds no"}),
        ({"components": ("vision",)}, set()),
    ],
    ids=lambda value: repr(sorted(value) if isinstance(value, set) else value),
)  # fmt: skip
def test_each_situation_has_its_verdict(here: dict[str, Any], expected: set[str]) -> None:
    verdict = solve(recipe(), replace(GOOD, **here))
    assert said(verdict) == expected
    assert verdict.refused == any(text.endswith(("builds no", "runs no")) for text in expected)
    assert all(reason.todo or reason.concern == "note" or reason.constraint == "refused"
               for reason in verdict.against())  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "here", "expected"),
    [
        ({"facts": OPEN, "needs": NO_NEEDS}, {},
         {f"{name} unknown" for name in ("gcc builds", "oneapi builds", "gpu runs", "driver runs")}),
        ({"needs": {"gcc": None}}, {"host_compiler": "Clang", "gcc": None, "target": "cpu"}, set()),
        ({"targets": ["cpu"], "target": "cpu"}, {}, {"target builds no"}),
        ({"release": "2.7.0"}, {"arch": ("none",)}, {"arch builds no"}),
        ({"abi": {"honoured": True}}, {"cxx11_abi": 0}, set()),
        ({"abi": {"default": 0}}, {"components": ("triton",)}, {"cxx11_abi builds no"}),
        ({"release": "9.8.0"}, {"components": ("vision",)}, {"vision builds no"}),
        ({"arch": [], "arch_upstream": ["bmg"]}, {}, set()),
        ({"components": {**BASE["components"], "ops": {**BASE["components"]["ops"], "end_of_life": "2025"}}},
         {}, {"ops note no"}),
    ],
)  # fmt: skip
def test_another_recipe_has_its_verdict(
    changes: dict[str, Any], here: dict[str, Any], expected: set[str]
) -> None:
    assert said(solve(recipe(**changes), replace(GOOD, **here))) == expected


def test_a_verdict_names_sources_and_what_is_lost() -> None:
    verdict = solve(recipe(), replace(GOOD, gcc="10.2", driver="rolling"))
    (reason,) = verdict.against()
    assert (reason.source, reason.confidence) == ("its CI", "inferred")
    assert reason.text == "needs GCC >=11,<15; the host has 10.2"
    assert [loss.text for loss in verdict.loses] == [
        "attention (GCC <13, here 10.2)",
        "profiling (driver rolling)",
    ]


@pytest.mark.parametrize(
    ("here", "lists"),
    [({}, [("pvc",), ("pvc", "bmg")]), ({"target": "cpu"}, []), ({"arch": ("none",)}, [("pvc", "bmg")]),
     ({"arch": ("dg2",)}, [("dg2",), ("dg2",)]), ({"oneapi": ("2025.1",)}, [("pvc",)])],
)  # fmt: skip
def test_the_lists_that_ocloc_is_given(here: dict[str, Any], lists: list[tuple[str, ...]]) -> None:
    situation = replace(GOOD, **here)
    case = Case(recipe(), situation, situation.oneapi[0] if situation.oneapi else None, "3.12")
    assert [item.targets for item in aot_lists(case)] == lists


def test_conditions_and_versions_in_words() -> None:
    assert condition_text({"gcc": "<13", "oneapi": ">=2025"}, "rolling", "max") == (
        "GCC <13 and oneAPI >=2025 and driver rolling and GPU max"
    )
    assert newest(["2024.2", "what", "2025.10", "2025.9"]) == ("2025.10", "2025.9", "2024.2", "what")


@pytest.mark.parametrize(
    ("version", "wanted", "answer"),
    [
        ("11", ">=11.3", "unknown"), ("11.3", ">=11.3", "yes"), ("11", "<12", "yes"), ("11", "!=11.*", "no"),
        ("11.2+", ">=11.2", "yes"), ("11.2rc1", ">=11.2.1", "no"), ("11+local", "<11.5", "yes"),
        ("11", ">=10,<11.9", "unknown"), ("nothing", ">=1", "unknown"), ("nothing", None, "yes"),
        ("11", "==11.*", "yes"), ("11", "==11.0", "unknown"), ("11.4", "<11.4.1", "unknown"),
        (None, ">=1", "unknown"), ("1", "", "yes"),
    ],
)  # fmt: skip
def test_three_valued_comparison(version: str | None, wanted: str | None, answer: str) -> None:
    assert fits(version, wanted) == answer


SHIPPED = {release.version: release for release in releases(recipes_dir())}
LINES = ("2024.1", "2025.0", "2025.1", "2025.2", "2025.3", "2026.0", "2026.1", "2026.2")
#: A site with Max GPUs that keeps the oldest toolkit: Aurora's.
SITE = Situation(gpu="max", driver="lts2-2523", oneapi=("2025.3.1",), python=("3.12",), gcc="13.3.0")


@pytest.mark.parametrize("name", SHIPPED)
def test_each_line_of_a_release_agrees_with_what_it_needs(name: str) -> None:
    """Pairing and tolerated lines are in the range, patched ones are not, and the range has no other line."""
    shipped = SHIPPED[name].recipe
    for line in (f"{line}.0" for line in LINES):
        inside = SpecifierSet(shipped.needs.oneapi or "").contains(Version(line))
        found = next((item for item in shipped.toolkits if SpecifierSet(item.oneapi).contains(line)), None)
        assert inside == (found is not None and found.standing != "patched"), line


def test_upstreams_pair_a_tolerated_line_and_a_dropped_one() -> None:
    pair = solve(SHIPPED["2.12.1"].recipe, SITE)
    assert (pair.builds, pair.toolkit.kind) == ("yes", "pairing")
    tolerated = solve(SHIPPED["2.13.0"].recipe, SITE)
    (note,) = [item for item in tolerated.notes() if item.constraint == "oneapi"]
    assert "2025.3.1 is tolerated: upstream builds it with oneAPI >=2026.0,<2026.1" in note.found
    assert note.source == "https://github.com/intel/torch-xpu-ops/pull/4302"
    dropped = solve(SHIPPED["2.14.1"].recipe, SITE)
    assert (dropped.builds, dropped.runs) == ("no", "yes"), "the driver is not what refuses it"
    (reason,) = dropped.against()
    assert reason.todo.count("in torch revert https://github.com/") == 3
    assert "needs 3 reverts, not tried here" in reason.todo
    # Of the two in pytorch no commit is known; that of torch-xpu-ops is named.
    assert reason.todo.count("whose commit the recipe lacks") == 2


def test_a_recipe_for_a_patched_line_alone_is_built_where_all_its_commits_are_known() -> None:
    shipped = SHIPPED["2.14.1"].recipe
    needs = shipped.needs.model_copy(update={"oneapi": ">=2025.3,<2025.4"})
    site = shipped.model_copy(update={"needs": needs})
    lacks = solve(site, SITE)
    assert lacks.builds == "no"
    (reason,) = lacks.against()
    assert "2025.3.1 needs 3 reverts" in reason.found
    assert "191470" in reason.found
    (line,) = [item for item in site.toolkits if item.standing == "patched"]
    known = [patch.model_copy(update={"commit": patch.commit or "a" * 40}) for patch in line.patches]
    whole = line.model_copy(update={"patches": known})
    done = solve(site.model_copy(update={"toolkits": [whole]}), SITE)
    assert done.builds == "yes"
    assert any(note.found.endswith("they are applied") for note in done.notes())


def test_the_matrix_keeps_building_and_running_apart() -> None:
    rows = matrix_document([SHIPPED[name] for name in ("2.14.1", "2.13.0", "2.12.1")], SITE)["releases"]
    told = sentence(rows)
    beside = "(and 2.13.0, with a oneAPI that upstream only tolerates)"
    assert told.startswith(f"newest that builds here: 2.12.1 {beside}; it runs here too")
    assert (rows[0]["toolkits"][-1]["standing"], len(rows[0]["toolkits"][-1]["patches"])) == ("patched", 3)


def test_patches_are_for_a_patched_line_alone() -> None:
    with pytest.raises(ValidationError, match="belong to a toolkit with standing 'patched'"):
        Toolkit.model_validate({"oneapi": ">=2025.3", "standing": "patched", "source": "x"})
