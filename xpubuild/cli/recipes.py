"""``xpubuild recipes list|show|check|bump|matrix``."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.cli import options
from xpubuild.engine.files import write_atomic
from xpubuild.errors import RecipeError, UsageError, XpuBuildError

if TYPE_CHECKING:
    from xpubuild.recipe.situation import Situation
    from xpubuild.recipe.values import Target

#: Options of matrix that take versions -> an example of one; those of which the host may have none.
_EXAMPLES = {"oneapi": "2025.3, or none", "python": "3.12, or none", "gcc": "13"}
_INSTALLED, _NONE = ("oneapi", "python"), ("none",)


def _recipes() -> None:
    """Show the recipes in the search path: XPUBUILD_RECIPES, the user's, the site's and xpubuild's own."""


recipes = options.group("recipes", _recipes)


@options.command("recipes list", parent=recipes)
def list_() -> int:
    """List all recipes."""
    from xpubuild.recipe.releases import catalogue
    from xpubuild.ui.recipe_views import recipes_view

    document = {"schema": "xpubuild.recipes/1", "recipes": catalogue()}
    return options.answer(document, lambda found: recipes_view(found["recipes"]))


@options.command("recipes show", parent=recipes)
def show(recipe: str) -> int:
    """Show a summary of RECIPE, including everything it extends; -v shows all values with their sources."""
    from xpubuild.recipe.load import load
    from xpubuild.recipe.releases import recipe_document
    from xpubuild.ui.recipe_views import recipe_summary_view, recipe_view

    if options.speech().verbose:
        return options.answer(recipe_document(load(recipe)), recipe_view)
    return options.answer(recipe_document(load(recipe)), lambda found: recipe_summary_view(found, recipe))


@options.command("recipes check", parent=recipes)
def check(recipe: tuple[str, ...], tree: dict[str, Path]) -> int:
    """Check recipes (default: all in the search path): schema, referenced files, switches, pins, facts.

    With --tree, also compares version, pin files, submodules, commit and, where the tree
    lists them, the variables of the build with a source tree.
    """
    from xpubuild.recipe.checked import check_recipes
    from xpubuild.ui.recipe_views import recipes_check_view

    document = check_recipes(recipe, tree)
    options.answer(document, recipes_check_view)
    return 0 if document["status"] == "ok" else RecipeError.exit_code


@options.command("recipes bump", parent=recipes)
def bump(release: str, tree: dict[str, Path], output: Path | None) -> int:
    """Look up the pins of RELEASE upstream, and compare them with the recipe.

    RELEASE is a line, such as 2.13, for its newest patch, or one version. Tags and commits come from the
    repositories, other pins from the files of these commits, which are fetched as for an install. With
    --tree, those of torch are from the commit of a checkout, which needs no tag. The recipe that --output
    writes extends the nearest one, has all pins, and says which values upstream does not state.
    """
    from xpubuild.recipe.bump import bump as look_up
    from xpubuild.recipe.load import find
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git
    from xpubuild.ui.recipe_views import bump_view

    if tree.keys() - {"torch"}:
        raise UsageError("only a tree of torch can be read", fix="pass --tree DIR, a checkout of PyTorch")
    with options.interruptible() as cancel:
        store = RepositoryStore(options.cache_folder(), Git.open(), cancel=cancel)
        document = look_up(release, store, tree.get("torch"))
    if output is not None:
        if output.resolve() == find(document["base"]).resolve():
            raise UsageError(f"{output} is the recipe that this one extends", fix="pass another file")
        write_atomic(output, document["text"].encode())
    return options.answer(document, lambda found: bump_view(found, str(output) if output else ""))


@options.command("recipes matrix", parent=recipes)
def matrix(here: bool, **asked: Any) -> int:
    """Show which releases are compatible with which oneAPI, driver, Python, GCC, triton, vision and audio.

    With --here, or with options that describe a host, show whether each release builds there, and the
    reasons.
    """
    from xpubuild.recipe.matrix import matrix_document
    from xpubuild.recipe.releases import releases
    from xpubuild.ui.recipe_views import matrix_view

    return options.answer(matrix_document(releases(), _situation(here, asked)), matrix_view)


def _situation(here: bool, asked: dict[str, Any]) -> Situation | None:
    """Return the host that is meant: this one with --here, with what the options override."""
    from xpubuild.install.release import situation_for
    from xpubuild.machine.host_report import host_report
    from xpubuild.machine.versions import parse
    from xpubuild.recipe.compatible_host import of_host
    from xpubuild.recipe.situation import Situation

    for name, example in _EXAMPLES.items():
        texts = (asked[name],) if isinstance(asked[name], str) else asked[name] or ()
        wrong = [text for text in texts if parse(text) is None]
        if wrong and texts != _NONE:
            fix = f"use a version such as {example}"
            raise UsageError(f"--{name} must be a version, not '{wrong[0]}'", fix=fix)
    changes = {name: asked[name] for name in ("gpu", "driver", "target", "gcc", "arch") if asked[name]}
    changes |= {name: () if asked[name] == _NONE else asked[name] for name in _INSTALLED if asked[name]}
    changes |= {"cxx11_abi": int(asked["abi"])} if asked["abi"] else {}
    changes |= {"host_compiler": "GNU"} if asked["gcc"] else {}
    if not here:
        return Situation(**changes) if changes else None
    # The interpreter and the compilers are those that plan would use, so that both agree.
    host = host_report()
    target: Target = asked["target"] or "xpu"
    try:
        found = situation_for(host, target, os.environ.get("XPUBUILD_PYTHON"))
    except XpuBuildError:  # plan says what is missing; here it is one of the reasons
        found = of_host(host, target)
    return replace(replace(found, gpu_targets=()) if "gpu" in changes else found, **changes)
