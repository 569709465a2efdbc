"""``xpubuild recipes list|show|check``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import matrix, options


@click.group(name="recipes", short_help="List, show and check recipes.")
def command() -> None:
    """Look at the recipes in the search path (XPUBUILD_RECIPES, the user's, the site's, xpubuild's own)."""


command.add_command(matrix.command)


@command.command(name="list")
@options.json_option
def list_(as_json: bool) -> int:
    """List all recipes."""
    from xpubuild.recipe.catalogue import catalogue
    from xpubuild.ui.console import print_json
    from xpubuild.ui.console import show as display
    from xpubuild.ui.views import recipes_view

    entries = catalogue()
    if as_json:
        print_json({"schema": "xpubuild.recipes/1", "recipes": entries})
    else:
        display(recipes_view(entries))
    return 0


@command.command()
@click.argument("recipe")
@options.json_option
def show(recipe: str, as_json: bool) -> int:
    """Show RECIPE as it is after everything it extends, with the source of each value."""
    from xpubuild.recipe.catalogue import recipe_document
    from xpubuild.recipe.load import load
    from xpubuild.ui.console import print_json
    from xpubuild.ui.console import show as display
    from xpubuild.ui.views import recipe_view

    document = recipe_document(load(recipe))
    if as_json:
        print_json(document)
    else:
        display(recipe_view(document))
    return 0


@command.command()
@click.argument("recipe", nargs=-1)
@options.option(
    "--tree",
    multiple=True,
    callback=options.split_trees,
    metavar="[COMPONENT=]DIR",
    help="Hold the recipe against a checked-out source tree, torch's unless a component is named.",
)
@options.json_option
def check(recipe: tuple[str, ...], tree: dict[str, Path], as_json: bool) -> int:
    """Check recipes (all in the search path by default): schema, files they name, switches, pins, facts.

    With --tree also: version, Python requirement, pin files, submodules and commit of a source tree.
    """
    from xpubuild.recipe.catalogue import check_recipes
    from xpubuild.ui.console import print_json
    from xpubuild.ui.console import show as display
    from xpubuild.ui.views import check_view

    document = check_recipes(recipe, tree)
    if as_json:
        print_json(document)
    else:
        display(check_view(document))
    return 0 if document["status"] == "ok" else 20
