"""The compatibility matrix: build requirements, matching versions and hosts of each release. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from xpubuild.documents import plain
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.limits import Loss
from xpubuild.recipe.model import Component, Recipe
from xpubuild.recipe.pairing import version_of
from xpubuild.recipe.releases import Release
from xpubuild.recipe.situation import Situation
from xpubuild.recipe.toolkits import patch_text

_WORDS = {"gcc": "GCC", "oneapi": "oneAPI", "python": "Python"}


def matrix_document(known: Iterable[Release], situation: Situation | None) -> dict[str, Any]:
    """Return the ``xpubuild.matrix/1`` document; with a situation, each release has a verdict."""
    return {
        "schema": "xpubuild.matrix/1",
        "situation": plain(situation),
        "releases": [row(release, situation) for release in known],
    }


def row(release: Release, situation: Situation | None = None) -> dict[str, Any]:
    """Return one release; null is what upstream does not tell or the recipe does not ask for."""
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
        "cxx11_abi": {
            "default": recipe.abi.default,
            "honoured": recipe.abi.honoured,
            "note": recipe.abi.note,
        },
        "arch": list(recipe.arch_upstream or recipe.arch),
        "components": {
            name: _component(recipe, name, component) for name, component in companions(recipe).items()
        },
        "loses": [_loss(loss) for loss in recipe.loses],
        "refuses": [
            {"when": when_text(item.when, item.driver, item.gpu), "why": item.why} for item in recipe.refuses
        ],
        "toolkits": [
            {
                **item.model_dump(include={"oneapi", "standing", "note", "source"}),
                "patches": [patch_text(patch) for patch in item.patches],
            }
            for item in recipe.toolkits
        ],
        "unknown": [path for path, fact in recipe.facts.items() if fact.confidence == "unknown"],
        "verdict": None if situation is None else plain(solve(recipe, situation)),
    }


def companions(recipe: Recipe) -> dict[str, Component]:
    """Return the components that go with torch, by name: all but torch and what xpubuild itself embeds."""
    return {
        name: component
        for name, component in recipe.components.items()
        if name != "torch" and (component.source is None or component.source.embedded is None)
    }


def _component(recipe: Recipe, name: str, component: Component) -> dict[str, Any]:
    case = Case(recipe, Situation(), None, None)
    return {
        "dist": component.dist,
        "version": version_of(case, name),
        "requires": list(component.requires),
        "end_of_life": component.end_of_life,
    }


def _loss(loss: Loss) -> dict[str, Any]:
    return {"feature": loss.feature, "when": when_text(loss.when, loss.driver), "note": loss.note}


def when_text(when: dict[Any, str], driver: str | None = None, gpu: str | None = None) -> str:
    """Return a condition in words: 'GCC <13 and driver lts-2350'."""
    parts = [f"{_WORDS[name]} {wanted}" for name, wanted in when.items()]
    parts += [f"driver {driver}"] if driver else []
    parts += [f"GPU {gpu}"] if gpu else []
    return " and ".join(parts)
