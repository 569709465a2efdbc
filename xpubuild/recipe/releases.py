"""All recipes, the releases that they describe, and one recipe with the sources of its values."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from packaging.version import Version

from xpubuild.errors import RecipeError
from xpubuild.errors_json import Error
from xpubuild.frozen import frozen
from xpubuild.recipe.facts import unknown_paths
from xpubuild.recipe.load import available, known_releases, load, release_of
from xpubuild.recipe.model import LoadedRecipe, Recipe
from xpubuild.recipe.order import order_of
from xpubuild.recipe.recipe_json import RecipeEntry


@frozen
class Release:
    """One release. ``name`` is what install takes, ``line`` the recipe that it is written in."""

    name: str
    line: str
    recipe: Recipe

    @property
    def version(self) -> str:
        """The torch version, or the branch."""
        return self.recipe.release or self.name

    @property
    def pinned(self) -> bool:
        """Whether the commit of torch is in the recipe; the plan of another one has to look it up first."""
        torch = self.recipe.components.get("torch")
        return torch is None or torch.source is None or torch.source.commit is not None


def releases(folder: Path | None = None) -> tuple[Release, ...]:
    """Return all releases in the search path, or in one folder, newest first; branches come last.

    A recipe that cannot be read is left out: ``recipes check`` says what is wrong with it.
    """
    found: list[Release] = []
    paths = available() if folder is None else {path.stem: path for path in folder.glob("*.yaml")}
    for name, path in paths.items():
        try:
            loaded = load(str(path))
        except RecipeError:
            continue
        if not loaded.recipe.abstract and is_release(loaded.recipe):
            found += [Release(name, name, loaded.recipe), *_patches(name, loaded)]
    return tuple(sorted(found, key=_order, reverse=True))


def is_release(recipe: Recipe) -> bool:
    """Whether torch is built from upstream's sources; site recipes around a prebuilt torch are no release."""
    torch = recipe.components.get("torch")
    return recipe.release is not None or (torch is not None and torch.kind == "source")


def _patches(name: str, loaded: LoadedRecipe) -> Iterator[Release]:
    for version in loaded.recipe.patches:
        try:
            yield Release(version, name, release_of(loaded, version).recipe)
        except RecipeError:
            continue


def _order(release: Release) -> tuple[bool, Version]:
    known = release.recipe.release
    return (known is not None, Version(known or "0"))


def catalogue() -> list[RecipeEntry]:
    """Return one entry per recipe; a broken one is listed with its error instead of hiding the rest."""
    entries: list[RecipeEntry] = []
    for name, path in sorted(available().items(), key=lambda item: order_of(item[0])):
        try:
            loaded = load(str(path))
        except RecipeError as error:
            entries.append({"name": name, "path": str(path), "error": cast(Error, error.to_json())})
            continue
        recipe, torch = loaded.recipe, loaded.recipe.components.get("torch")
        if not recipe.abstract:
            entries.append(
                {
                    "name": name,
                    "path": str(path),
                    "title": recipe.title,
                    "release": recipe.release,
                    "patches": [item for item in known_releases(loaded.document) if item != recipe.release],
                    "targets": list(recipe.targets),
                    "torch": torch.version if torch else None,
                    "components": list(recipe.components),
                    "error": None,
                }
            )
    return entries


def recipe_document(loaded: LoadedRecipe) -> dict[str, object]:
    """Return the ``xpubuild.recipe/1`` document; what upstream has and we do not know is in ``unknown``."""
    return {
        "schema": "xpubuild.recipe/1",
        "path": str(loaded.path),
        "recipe": loaded.recipe.model_dump(mode="json", by_alias=True),
        "unknown": unknown_paths(loaded.recipe.facts),
    }
