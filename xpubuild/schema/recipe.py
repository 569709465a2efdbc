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
    unknown: list[str]
    """Paths of values that upstream has and that are not known."""


class RecipeEntry(Part):
    """One recipe of the list; a broken one has an error and nothing else."""

    name: str
    path: str
    error: Error | None
    title: str = ""
    release: str | None = None
    """The release that is built; null for a branch."""
    patches: list[str] = Field(default=[])
    """Older patch releases that can be named as well."""
    targets: list[str] = Field(default=[])
    torch: str | None = None
    components: list[str] = Field(default=[])


class RecipesDocument(Document):
    """The recipes in the search path."""

    schema_: Literal["xpubuild.recipes/1"] = Field(alias="schema", description="Name and version.")
    recipes: list[RecipeEntry]


class CheckedRecipe(Part):
    """The results for one recipe; any problem makes the check fail."""

    recipe: str
    problems: list[str]
    warnings: list[str] = Field(default=[])
    """For the author to check; they do not fail the check."""
    not_checked: list[str] = Field(default=[])
    """With --tree: what recipe or tree do not say, and was not compared."""


class ProposedPin(Part):
    """A value of a recipe that upstream states."""

    key: str
    recipe: str | None
    """What the recipe has; null if it has nothing."""
    upstream: str
    changed: bool
    source: str


class RecipesBumpDocument(Document):
    """What ``recipes bump`` looked up."""

    schema_: Literal["xpubuild.recipes-bump/1"] = Field(alias="schema", description="Name and version.")
    release: str
    base: str
    """The recipe that the proposed one extends."""
    proposals: list[ProposedPin]
    open: list[str]
    """What upstream does not state, and a person has to look up."""
    text: str
    """The proposed recipe, as YAML."""


class RecipesCheckDocument(Document):
    """What ``recipes check`` found."""

    schema_: Literal["xpubuild.recipes-check/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["ok", "fail"]
    recipes: list[CheckedRecipe]
