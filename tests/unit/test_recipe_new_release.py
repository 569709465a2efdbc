"""A release and a component that nobody has heard of: one YAML file, and every command knows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cli import Xpubuild
from support.documents import check

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
