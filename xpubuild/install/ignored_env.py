"""Variables of the caller's shell that a build does not get."""

from __future__ import annotations

from collections.abc import Mapping

from xpubuild.engine.environment import base_environment
from xpubuild.install.request import Choice
from xpubuild.recipe.lint import unheard
from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import switches


def ignored_variables(recipe: Recipe, choice: Choice, caller: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning that names the variables which a build by hand would have read; nothing without them.

    The base environment is an allow-list, so they change nothing here, and who set them may think they do.
    """
    named = {switch.component for switch in switches().values() if switch.kind == "build"}
    sources = [name for name in choice.components if name in named and recipe.components[name].source]
    kinds = {"build"} if sources else set()
    kinds |= {"runtime"} if choice.target == "xpu" else set()
    names = unheard(recipe, kinds, caller, base_environment(caller))
    if not names:
        return ()
    return (f"set in your shell, ignored by the build (use the recipe or options): {', '.join(names)}",)
