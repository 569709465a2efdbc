"""The values of a recipe that are compared with a checked-out tree, for the components of a plan."""

from __future__ import annotations

from dataclasses import replace

from xpubuild.install.context import Context
from xpubuild.recipe.tree import RecipeTreeProof
from xpubuild.recipe.tree_expected import expected


def recipe_proofs(context: Context, name: str) -> tuple[RecipeTreeProof, ...]:
    """Return the proof that recipe and tree agree; none for sources that xpubuild carries itself."""
    source = context.component(name).source
    if source is None or source.url is None:
        return ()
    wanted = expected(context.recipe, name)
    if "triton" not in context.choice.components:
        # A pin that this plan does not use must not stop it; recipes check tells of it.
        wanted = replace(wanted, triton_commit=None, triton_version=None)
    return (RecipeTreeProof(str(context.layout.src / name), wanted),)
