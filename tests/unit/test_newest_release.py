"""Which release is meant where none is named, and what a refusal says would work instead."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.documents import check
from support.releases import IN_TABLES

from xpubuild.errors import ToolchainError, UnsatisfiableError
from xpubuild.install import release
from xpubuild.install.options import Options
from xpubuild.install.release import choose_release, refused, with_alternatives
from xpubuild.machine.host_report import HostReport, host_report
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.releases import Release, releases
from xpubuild.recipe.situation import Situation
from xpubuild.resources import recipes_dir

HERE = Situation(
    gpu="max", gpu_targets=("pvc",), driver="lts-2350", oneapi=("2025.3",), python=("3.11.9",), gcc="12.2.0",
    host_compiler="GNU",
)  # fmt: skip


@pytest.fixture(scope="module")
def known() -> tuple[Release, ...]:
    """Return the releases that these tests tell of; a later one would be the newest in their place."""
    return tuple(release for release in releases(recipes_dir()) if release.version in IN_TABLES)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> HostReport:
    return host_report(tmp_path_factory.mktemp("rootfs"))


def test_the_releases_come_newest_first_with_their_patches(known: tuple[Release, ...]) -> None:
    names = [release.version for release in known]
    assert names.index("2.15.0") < names.index("2.14.1") < names.index("2.14.0") < names.index("2.9.1")
    assert names.index("2.10.0") < names.index("2.9.1") < names.index("2.7.1") < names.index("2.7.0")
    assert {"2.4.0", "2.4.1", "2.12.0", "2.12.1"} <= set(names)


def test_max_with_the_oneapi_of_2025_stops_at_2_13(known: tuple[Release, ...]) -> None:
    chosen = choose_release(known, None, HERE)
    assert (chosen.recipe, chosen.target) == ("2.12", "xpu")
    assert "2.13.0: oneAPI 2025.3 is tolerated by upstream; ask for it by name" in chosen.why
    alone = tuple(item for item in known if item.version not in ("2.12.0", "2.12.1", "2.11.0", "2.10.0"))
    chosen = choose_release(alone, None, HERE)
    assert (chosen.recipe, chosen.target) == ("2.13", "xpu")
    assert "2.13.0 is the newest release that this host can build for xpu" in chosen.why
    for passed in ("2.15.0", "2.14.1", "2.14.0"):
        assert f"{passed}: needs oneAPI >=2026.0" in chosen.why


def test_what_the_driver_s_ocloc_cannot_compile_is_passed_over(known: tuple[Release, ...]) -> None:
    situation = replace(HERE, gcc="13.2.0", oneapi=("2025.3", "2025.2"))
    chosen = choose_release(known, None, situation)
    assert chosen.recipe == "2.9"
    assert "2.10.0: needs an ocloc that compiles flash attention" in chosen.why
    assert choose_release(known, None, replace(situation, driver="rolling")).recipe == "2.12"
    # Upstream builds 2.13 with 2026.0 and tolerates it for 2.14.
    assert choose_release(known, None, replace(HERE, oneapi=("2026.0",))).recipe == "2.13"


def test_a_release_whose_commit_is_known_is_preferred(known: tuple[Release, ...]) -> None:
    situation = replace(HERE, oneapi=("2026.1",))
    chosen = choose_release(known, None, situation)
    assert chosen.recipe == "2.14"
    assert "2.15.0: its commit is not in the recipe" in chosen.why
    alone = tuple(release for release in known if release.version == "2.15.0")
    assert "looked up upstream" in choose_release(alone, None, situation).why


def test_for_the_cpu_no_oneapi_is_needed(known: tuple[Release, ...]) -> None:
    situation = replace(HERE, gpu=None, driver=None, oneapi=())
    assert choose_release(known, "cpu", situation).target == "cpu"


def test_without_gpu_and_oneapi_it_explains(known: tuple[Release, ...]) -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        choose_release(known, None, replace(HERE, gpu=None, gpu_targets=(), oneapi=()))
    error = caught.value
    assert "neither an Intel GPU nor oneAPI" in error.what
    assert "--target cpu" in error.fix
    assert "quickstart" in error.fix
    assert "xpubuild plan --target cpu" in error.commands


def test_a_gpu_without_oneapi_is_a_matter_of_the_environment(known: tuple[Release, ...]) -> None:
    with pytest.raises(ToolchainError) as caught:
        choose_release(known, None, replace(HERE, oneapi=()))
    assert "oneAPI" in caught.value.what


def test_a_host_that_can_build_none_hears_why_for_each(known: tuple[Release, ...]) -> None:
    with pytest.raises(UnsatisfiableError) as caught:
        choose_release(known, "xpu", replace(HERE, gcc="7.5.0"))
    assert caught.value.why.count("GCC >=") >= len([item for item in known if item.recipe.release])
    assert any("recipes matrix" in line for line in caught.value.commands)


def test_a_refusal_names_the_reason_and_what_would_fit(
    known: tuple[Release, ...], bare: HostReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = next(item.recipe for item in known if item.version == "2.14.1")
    monkeypatch.setattr(release, "situation_for", lambda *_: HERE)
    monkeypatch.setattr(release, "releases", lambda: known)
    error = with_alternatives(refused(recipe, solve(recipe, HERE)), recipe, Options(None), bare)
    assert error.exit_code == 22
    assert "the host has 2025.3" in error.why
    assert "rules out here: 2.13, " in error.fix
    assert "xpubuild plan 2.13" in error.commands
    assert error.evidence["would_fit"][0] == "2.13"
    (constraint,) = error.evidence["constraints"]
    assert constraint["constraint"] == "oneapi"
    assert constraint["source"]


def test_a_refusal_that_breaks_no_constraint_is_left_alone(
    known: tuple[Release, ...], bare: HostReport, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(release, "situation_for", lambda *_: HERE)
    recipe = next(item.recipe for item in known if item.version == "2.13.0")
    error = UnsatisfiableError("'vision' cannot be built without 'torch'", fix="exclude both")
    assert with_alternatives(error, recipe, Options(None), bare).fix == "exclude both"


def test_what_was_asked_for_with_it_counts(known: tuple[Release, ...]) -> None:
    assert choose_release(known, None, replace(HERE, oneapi=("2025.1",)), ("ipex",)).recipe == "2.8"


def test_a_recipe_of_a_site_is_not_taken_unasked(known: tuple[Release, ...]) -> None:
    best = next(release for release in known if release.version == "2.13.0")
    newer = best.recipe.model_copy(update={"release": "9.9.9"})
    others = (replace(best, name="mine", line="mine", recipe=newer), *known)
    assert choose_release(others, None, HERE).recipe == "2.12"


# ---- A release and a component that nobody has heard of: one YAML file, and every command knows them


COMMIT, OTHER = "9a" * 20, "8b" * 20
RECIPE = f"""\
schema: 1
name: "9.9"
title: PyTorch 9.9.0, made up
extends: base
release: 9.9.0
needs: {{gcc: ">=5", oneapi: ">=2026.0"}}
components:
  torch:
    source: {{ref: v9.9.0, commit: {COMMIT}, version: 9.9.0a0}}
    build: {{env: {{PYTORCH_BUILD_VERSION: 9.9.0, XPU_ENABLE_KINETO: "{{xpu}}"}}}}
  triton: {{version: 3.99.0, source: {{ref: v3.99.0, commit: {OTHER}}}}}
  vision: {{version: 0.99.0, requires: [torch==9.9.0], source: {{ref: v0.99.0, commit: {OTHER}}}}}
  ipex: null
  gizmo:
    kind: source
    dist: torch-gizmo
    version: 0.12.0
    requires: [torch==9.9.0]
    needs: [torch]
    optional: true
    source: {{url: "https://example.invalid/gizmo.git", ref: v0.12.0, commit: {OTHER}}}
    build: {{env: {{GIZMO_SIZE: 0}}}}
facts:
  needs: {{source: made up}}
  components.torch.build: {{source: made up}}
  components.triton: {{source: made up}}
  components.torch.source: {{source: made up}}
  components.vision: {{source: made up}}
  components.gizmo: {{source: made up}}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the recipe in front of the shipped ones."""
    (tmp_path / "9.9.yaml").write_text(RECIPE)
    monkeypatch.setenv("XPUBUILD_RECIPES", str(tmp_path))
    return tmp_path


def test_it_is_listed_shown_and_checked(folder: Path, xpubuild: Xpubuild) -> None:
    entry = next(item for item in xpubuild.json("recipes", "list")["recipes"] if item["name"] == "9.9")
    assert "gizmo" in entry["components"]
    document = check(xpubuild.json("recipes", "show", "9.9.0"), "recipe")
    assert document["recipe"]["components"]["gizmo"]["source"]["commit"] == OTHER
    assert "torch-gizmo" in xpubuild.ok("recipes", "show", "9.9").out
    (checked,) = check(xpubuild.json("recipes", "check", "9.9"), "recipes-check")["recipes"]
    assert checked["problems"] == checked["warnings"] == []


def test_the_matrix_follows(folder: Path, xpubuild: Xpubuild) -> None:
    first, second = check(xpubuild.json("recipes", "matrix"), "matrix")["releases"][:2]
    assert (first["release"], first["components"]["vision"]["version"]) == ("9.9.0", "0.99.0")
    assert first["components"]["gizmo"] == {
        "dist": "torch-gizmo", "version": "0.12.0", "requires": ["torch==9.9.0"], "end_of_life": None,
    }  # fmt: skip
    assert {"torch", "ops"}.isdisjoint(first["components"])
    assert "gizmo" not in second["components"]
    assert "  GIZMO" in xpubuild.ok("recipes", "matrix").out.partition("Matching versions\n")[2]


def test_it_is_planned(folder: Path, xpubuild: Xpubuild) -> None:
    words = ("plan", "--target", "cpu", "--with", "gizmo,vision", "--jobs", "2")
    document = check(xpubuild.json(*words), "plan")
    assert document["recipe"] == "9.9"
    steps = {step["id"]: step for step in document["steps"]}
    assert {"torch.wheel", "vision.wheel", "gizmo.source", "gizmo.wheel", "gizmo.install"} <= set(steps)
    assert COMMIT in str(steps["torch.source"])
    assert OTHER in str(steps["gizmo.source"])
    env = steps["gizmo.wheel"]["commands"][-1]["env"]
    assert env["GIZMO_SIZE"] == "0"
    without = xpubuild.json("plan", "9.9", "--target", "cpu", "--jobs", "2")
    assert [step["id"] for step in without["steps"] if step["id"].startswith("gizmo")] == []
