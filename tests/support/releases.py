"""The releases that the shipped recipes describe, read from recipes/: a new recipe needs no entry here."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from packaging.version import Version

from xpubuild.recipe.load import load
from xpubuild.recipe.model import GitSource, LoadedRecipe, Recipe
from xpubuild.resources import recipes_dir

BRANCH = "main"


@functools.cache
def recipe_of(name: str) -> LoadedRecipe:
    return load(name)


def lines_in(folder: Path) -> dict[str, tuple[str, ...]]:
    """Return line -> its patch releases: the oldest line first, in a line the newest (the recipe itself)."""
    names = [path.stem for path in folder.glob("*.yaml") if re.fullmatch(r"\d+\.\d+", path.stem)]
    recipes = {name: load(str(folder / f"{name}.yaml")).recipe for name in sorted(names, key=Version)}
    return {name: (str(recipe.release), *recipe.patches) for name, recipe in recipes.items()}


#: Line -> its patch releases, the newest first.
RELEASES = lines_in(recipes_dir())
LINES = [*RELEASES, BRANCH]
EVERY = [*(release for line in RELEASES.values() for release in line), BRANCH]
NEWEST = next(reversed(RELEASES.values()))[0]
#: What the verify suite may import beside the standard library: components, by the package of their wheel.
TARGET_PACKAGES = {"triton", "numpy"} | {
    component.dist.replace("-", "_")
    for name in EVERY
    for component in recipe_of(name).recipe.components.values()
}
#: What the tables in tests know. They are facts of releases that exist; a later release is compared with the
#: rules that hold for all, and with its own facts.
NEWEST_IN_TABLES = Version("2.15.0")
IN_TABLES = [name for name in EVERY if name == BRANCH or Version(name) <= NEWEST_IN_TABLES]


def source(recipe: Recipe, name: str) -> GitSource:
    found = recipe.components[name].source
    assert found is not None
    return found
