"""All recipes: listing, and showing with sources."""

from __future__ import annotations

from typing import Any

from xpubuild.errors import RecipeError
from xpubuild.recipe.facts import unknown_paths
from xpubuild.recipe.load import available, load
from xpubuild.recipe.model import LoadedRecipe
from xpubuild.recipe.order import order_of
from xpubuild.recipe.patches import known_releases


def catalogue() -> list[dict[str, Any]]:
    """Return one entry per recipe; a broken one is listed with its error instead of hiding the rest."""
    entries = []
    for name, path in sorted(available().items(), key=lambda item: order_of(item[0])):
        entry: dict[str, Any] = {"name": name, "path": str(path)}
        try:
            loaded = load(str(path))
        except RecipeError as error:
            entry["error"] = error.to_json()
        else:
            if loaded.recipe.abstract:
                continue
            entry.update(_entry(loaded), error=None)
        entries.append(entry)
    return entries


def _entry(loaded: LoadedRecipe) -> dict[str, Any]:
    recipe = loaded.recipe
    torch = recipe.components.get("torch")
    return {
        "title": recipe.title,
        "release": recipe.release,
        "patches": [item for item in known_releases(loaded.document) if item != recipe.release],
        "targets": list(recipe.targets),
        "torch": torch.version if torch else None,
        "components": list(recipe.components),
    }


def recipe_document(loaded: LoadedRecipe) -> dict[str, Any]:
    """Return the ``xpubuild.recipe/1`` document; what upstream has and we do not know is in ``unknown``."""
    return {
        "schema": "xpubuild.recipe/1",
        "path": str(loaded.path),
        "recipe": loaded.recipe.model_dump(mode="json", by_alias=True),
        "unknown": unknown_paths(loaded.recipe.facts),
    }
