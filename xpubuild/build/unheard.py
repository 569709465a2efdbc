"""What the caller's shell says and no build hears."""

from __future__ import annotations

from collections.abc import Mapping

from xpubuild.build.request import Choice
from xpubuild.engine.environment import base_environment
from xpubuild.recipe.lint import unheard
from xpubuild.recipe.model import Recipe

_BUILT = ("torch", "triton")


def unheard_variables(recipe: Recipe, choice: Choice, caller: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning that names the variables which a build by hand would have read; nothing without them.

    The base environment is an allow-list, so they change nothing here, and who set them may think they do.
    """
    sources = [name for name in _BUILT if name in choice.components and recipe.components[name].source]
    kinds = {"build", "triton"} if sources else set()
    kinds |= {"runtime"} if choice.target == "xpu" else set()
    names = unheard(recipe, kinds, caller, base_environment(caller))
    if not names:
        return ()
    return (f"set in your shell, not passed on (recipe and options decide): {', '.join(names)}",)
