"""``xpubuild recipes list|show|check --json``."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from xpubuild.recipe.model import Recipe
from xpubuild.schema.common import Document, Error, Part


class RecipeDocument(Document):
    """One recipe, after everything it extends."""

    schema_: Literal["xpubuild.recipe/1"] = Field(alias="schema", description="Name and version.")
    path: str
    recipe: Recipe
    unknown: list[str] = Field(description="Paths of values whose fact says that upstream does not tell.")


class RecipeEntry(Part):
    """One recipe of the list; a broken one has an error and nothing else."""

    name: str
    path: str
    error: Error | None
    title: str = ""
    targets: list[str] = Field(default=[])
    torch: str | None = None
    components: list[str] = Field(default=[])


class RecipesDocument(Document):
    """The recipes in the search path."""

    schema_: Literal["xpubuild.recipes/1"] = Field(alias="schema", description="Name and version.")
    recipes: list[RecipeEntry]


class CheckedRecipe(Part):
    """The problems of one recipe."""

    recipe: str
    problems: list[str]


class RecipesCheckDocument(Document):
    """What ``recipes check`` found."""

    schema_: Literal["xpubuild.recipes-check/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["ok", "fail"]
    recipes: list[CheckedRecipe]
