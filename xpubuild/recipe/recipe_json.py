"""``xpubuild recipes list|show|check --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.errors_json import Error
from xpubuild.recipe.model import Recipe


class RecipeDocument(TypedDict):
    """One recipe, after everything it extends."""

    schema: Literal["xpubuild.recipe/1"]
    """Name and version."""
    path: str
    recipe: Recipe
    unknown: list[str]
    """Paths of values that upstream has and that are not known."""


class RecipeEntry(TypedDict):
    """One recipe of the list; a broken one has an error and nothing else."""

    name: str
    path: str
    error: Error | None
    title: NotRequired[str]
    release: NotRequired[str | None]
    """The release that is built; null for a branch."""
    patches: NotRequired[list[str]]
    """Older patch releases that can be named as well."""
    targets: NotRequired[list[str]]
    torch: NotRequired[str | None]
    components: NotRequired[list[str]]


class RecipesDocument(TypedDict):
    """The recipes in the search path."""

    schema: Literal["xpubuild.recipes/1"]
    """Name and version."""
    recipes: list[RecipeEntry]


class CheckedRecipe(TypedDict):
    """The results for one recipe; any problem makes the check fail."""

    recipe: str
    problems: list[str]
    warnings: NotRequired[list[str]]
    """For the author to check; they do not fail the check."""
    not_checked: NotRequired[list[str]]
    """With --tree: what recipe or tree do not say, and was not compared."""


class ProposedPin(TypedDict):
    """A value of a recipe that upstream states."""

    key: str
    recipe: str | None
    """What the recipe has; null if it has nothing."""
    upstream: str
    changed: bool
    source: str


class RecipesBumpDocument(TypedDict):
    """What ``recipes bump`` looked up."""

    schema: Literal["xpubuild.recipes-bump/1"]
    """Name and version."""
    release: str
    base: str
    """The recipe that the proposed one extends."""
    proposals: list[ProposedPin]
    open: list[str]
    """What upstream does not state, and a person has to look up."""
    text: str
    """The proposed recipe, as YAML."""


class RecipesCheckDocument(TypedDict):
    """What ``recipes check`` found."""

    schema: Literal["xpubuild.recipes-check/1"]
    """Name and version."""
    status: Literal["ok", "fail"]
    recipes: list[CheckedRecipe]
