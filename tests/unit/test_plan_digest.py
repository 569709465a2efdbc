"""The digest of a plan depends on what was chosen, and on nothing beside it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from support.plan_files import target_for
from support.releases import recipe_of

from xpubuild.engine.fingerprint import digest
from xpubuild.install.planner import inputs
from xpubuild.recipe.load import validated


def _other(document: dict[str, Any]) -> None:
    """Add a component, a variant, and what says nothing of the build to a recipe; change others' pins."""
    document["components"]["more"] = {**document["components"]["vision"], "dist": "more", "optional": True}
    document["variants"]["mine"] = {"env": {"torch": {"USE_MINE": 1}}}
    document["variants"]["minimal"]["env"]["vision"] = {"FORCE_MINE": 1}
    document["components"]["audio"]["source"]["commit"] = "7" * 40
    document["verify"]["require"] = [*document["verify"].get("require", ()), "more"]
    document |= {"title": "another", "costs": {}, "facts": {}, "loses": [], "arch_upstream": ["pvc"]}
    document["needs"]["disk_gib"] = 99.0


def _switch(document: dict[str, Any]) -> None:
    document["variants"]["minimal"]["env"]["torch"]["USE_MINE"] = 1


def _commit(document: dict[str, Any]) -> None:
    document["components"]["torch"]["source"]["commit"] = "7" * 40


def _range(document: dict[str, Any]) -> None:
    document["needs"]["oneapi"] = ">=2025.3"


@pytest.mark.parametrize(
    ("change", "same"), [(_other, True), (_switch, False), (_commit, False), (_range, False)]
)
def test_what_was_not_chosen_changes_no_digest(
    change: Callable[[dict[str, Any]], None], same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = recipe_of("2.13")
    before = digest(inputs(target_for("2.13", variant="minimal")))
    document: Any = copy.deepcopy(loaded.recipe.model_dump(mode="json", by_alias=True, exclude_none=True))
    change(document)
    changed = validated(document, loaded.path, loaded.folders)
    monkeypatch.setattr("support.plan_files.recipe_of", lambda _: changed)
    assert (digest(inputs(target_for("2.13", variant="minimal"))) == before) is same
