"""The shipped recipes of releases."""

from __future__ import annotations

import functools

from xpubuild.recipe.load import load
from xpubuild.recipe.model import GitSource, LoadedRecipe, Recipe

#: Line -> its patch releases, the newest (the recipe itself) first.
RELEASES = {
    "2.4": ("2.4.1", "2.4.0"), "2.5": ("2.5.1", "2.5.0"), "2.6": ("2.6.0",), "2.7": ("2.7.1", "2.7.0"),
    "2.8": ("2.8.0",), "2.9": ("2.9.1", "2.9.0"), "2.10": ("2.10.0",), "2.11": ("2.11.0",),
    "2.12": ("2.12.1", "2.12.0"), "2.13": ("2.13.0",), "2.14": ("2.14.1", "2.14.0"), "2.15": ("2.15.0",),
}  # fmt: skip
LINES = [*RELEASES, "main"]
EVERY = [*(release for line in RELEASES.values() for release in line), "main"]


@functools.cache
def recipe_of(name: str) -> LoadedRecipe:
    return load(name)


def source(recipe: Recipe, name: str) -> GitSource:
    found = recipe.components[name].source
    assert found is not None
    return found
