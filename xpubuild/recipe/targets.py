"""The target that a recipe is built for."""

from __future__ import annotations

from xpubuild.errors import UnsatisfiableError
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.values import Target


def target_of(recipe: Recipe, wanted: Target | None) -> Target:
    """Return the target that is wanted, else the recipe's own.

    Raises:
        UnsatisfiableError: the recipe cannot be built for it.
    """
    target = wanted or recipe.target
    if target not in recipe.targets:
        raise UnsatisfiableError(
            f"recipe '{recipe.name}' has no target '{target}'",
            why=f"it can be built for: {', '.join(recipe.targets)}",
            fix=f"omit --target, or use --target {recipe.targets[0]}",
        )
    return target
