"""The releases that recipes describe, newest first: each line's newest patch, and its older ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.version import Version

from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen
from xpubuild.recipe.load import available, load, release_of
from xpubuild.recipe.model import LoadedRecipe, Recipe


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
        recipe = loaded.recipe
        if recipe.abstract or not is_release(recipe):
            continue
        found.append(Release(name, name, recipe))
        found += _patches(name, loaded)
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
    return (known is not None, Version(known) if known else Version("0"))
