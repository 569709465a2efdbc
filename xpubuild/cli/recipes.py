"""``xpubuild recipes list|show|check|bump``; ``matrix`` is a module of its own."""

from __future__ import annotations

from pathlib import Path

from xpubuild.cli import matrix, options


def _recipes() -> None:
    """Show the recipes in the search path: XPUBUILD_RECIPES, the user's, the site's and xpubuild's own."""


command = options.group("recipes", _recipes)
command.add_command(matrix.command)


@options.command("recipes list", parent=command)
def list_() -> int:
    """List all recipes."""
    from xpubuild.recipe.releases import catalogue
    from xpubuild.ui.recipe_views import recipes_view

    document = {"schema": "xpubuild.recipes/1", "recipes": catalogue()}
    return options.answer(document, lambda found: recipes_view(found["recipes"]))


@options.command("recipes show", parent=command)
def show(recipe: str) -> int:
    """Show a summary of RECIPE, including everything it extends; -v shows all values with their sources."""
    from xpubuild.recipe.load import load
    from xpubuild.recipe.releases import recipe_document
    from xpubuild.ui.recipe_views import recipe_summary_view, recipe_view

    if options.speech().verbose:
        return options.answer(recipe_document(load(recipe)), recipe_view)
    return options.answer(recipe_document(load(recipe)), lambda found: recipe_summary_view(found, recipe))


@options.command("recipes check", parent=command)
def check(recipe: tuple[str, ...], tree: dict[str, Path]) -> int:
    """Check recipes (default: all in the search path): schema, referenced files, switches, pins, facts.

    With --tree, also compares version, Python requirement, pin files, submodules and commit with a source
    tree.
    """
    from xpubuild.errors import RecipeError
    from xpubuild.recipe.checked import check_recipes
    from xpubuild.ui.recipe_views import recipes_check_view

    document = check_recipes(recipe, tree)
    options.answer(document, recipes_check_view)
    return 0 if document["status"] == "ok" else RecipeError.exit_code


@options.command("recipes bump", parent=command)
def bump(release: str, output: Path | None) -> int:
    """Look up the pins of RELEASE upstream, and compare them with the recipe.

    RELEASE is a line, such as 2.13, for its newest patch, or one version. Tags and commits come from the
    repositories, other pins from the files of these commits, which are fetched as for an install. The
    recipe that --output writes extends the nearest one and has all pins.
    """
    import platformdirs

    from xpubuild.engine.files import write_atomic
    from xpubuild.recipe.bump import bump as look_up
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git
    from xpubuild.ui.recipe_views import bump_view

    with options.interruptible() as cancel:
        store = RepositoryStore(platformdirs.user_cache_path("xpubuild"), Git.open(), cancel=cancel)
        document = look_up(release, store)
    if output is not None:
        write_atomic(output, document["text"].encode())
    return options.answer(document, lambda found: bump_view(found, str(output) if output else ""))
