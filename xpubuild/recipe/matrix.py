"""The compatibility matrix: build requirements, matching versions and hosts of each release. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xpubuild.documents import plain
from xpubuild.recipe.conditions import condition_text
from xpubuild.recipe.constraints import patch_text, solve
from xpubuild.recipe.facts import unknown_paths
from xpubuild.recipe.model import Component, Recipe
from xpubuild.recipe.pairing import version_of
from xpubuild.recipe.releases import Release
from xpubuild.recipe.situation import Situation


def matrix_document(known: Iterable[Release], situation: Situation | None) -> dict[str, Any]:
    """Return the ``xpubuild.matrix/1`` document; with a situation, each release has a verdict."""
    return {
        "schema": "xpubuild.matrix/1",
        "situation": plain(situation),
        "releases": [row(release, situation) for release in known],
    }


def row(release: Release, situation: Situation | None = None) -> dict[str, Any]:
    """Return one release; null is what upstream does not state or the recipe does not require."""
    recipe = release.recipe
    needs = recipe.needs
    return {
        "release": release.version,
        "recipe": release.name,
        "pinned": release.pinned,
        "oneapi": needs.oneapi,
        "drivers": list(needs.drivers),
        "gpus": list(needs.gpus),
        "python": needs.python,
        "gcc": needs.gcc,
        "host_compiler": needs.host_compiler,
        "cmake": needs.cmake,
        "cxx_standard": needs.cxx_standard,
        "cxx11_abi": recipe.abi.model_dump(),
        "arch": list(recipe.arch_upstream or recipe.arch),
        "components": {
            name: {
                "dist": component.dist,
                "version": version_of(recipe, name),
                "requires": list(component.requires),
                "end_of_life": component.end_of_life,
            }
            for name, component in companions(recipe).items()
        },
        "loses": [
            {"feature": item.feature, "when": condition_text(item.when, item.driver), "note": item.note}
            for item in recipe.loses
        ],
        "refuses": [
            {"when": condition_text(item.when, item.driver, item.gpu), "why": item.why}
            for item in recipe.refuses
        ],
        "toolkits": [
            {
                **item.model_dump(include={"oneapi", "standing", "note", "source"}),
                "patches": [patch_text(patch) for patch in item.patches],
            }
            for item in recipe.toolkits
        ],
        "unknown": unknown_paths(recipe.facts),
        "verdict": None if situation is None else plain(solve(recipe, situation)),
    }


def companions(recipe: Recipe) -> dict[str, Component]:
    """Return what goes with torch, by name: not torch, what xpubuild embeds, and wheels of another one."""
    return {
        name: component
        for name, component in recipe.components.items()
        if name != "torch" and component.instead_of is None
        and (component.source is None or component.source.embedded is None)
    }  # fmt: skip
