"""``xpubuild recipes list|show|check``."""

from __future__ import annotations

from pathlib import Path

import click

from xpubuild.cli import matrix, names, options


@click.group(name="recipes", short_help="List, show and check recipes.")
def command() -> None:
    """Show the recipes in the search path: XPUBUILD_RECIPES, the user's, the site's and xpubuild's own."""


command.add_command(matrix.command)


@command.command(name="list")
@options.json_option
@options.speech()
def list_(as_json: bool) -> int:
    """List all recipes."""
    from xpubuild.recipe.catalogue import catalogue
    from xpubuild.ui.console import print_json
    from xpubuild.ui.console import show as display
    from xpubuild.ui.recipe_views import recipes_view

    entries = catalogue()
    if as_json:
        print_json({"schema": "xpubuild.recipes/1", "recipes": entries})
    else:
        display(recipes_view(entries))
    return 0


@command.command(short_help="Show a summary of a recipe.")
@click.argument("recipe", shell_complete=names.recipes)
@options.json_option
@options.speech("verbose", verbose="Show all values with their sources.")
def show(recipe: str, as_json: bool, verbose: bool) -> int:
    """Show a summary of RECIPE, including everything it extends; -v shows all values with their sources."""
    from xpubuild.recipe.catalogue import recipe_document
    from xpubuild.recipe.load import load
    from xpubuild.ui.console import print_json
    from xpubuild.ui.console import show as display
    from xpubuild.ui.recipe_views import recipe_summary_view, recipe_view

    document = recipe_document(load(recipe))
    if as_json:
        print_json(document)
    else:
        display(recipe_view(document) if verbose else recipe_summary_view(document, recipe))
    return 0


@command.command(short_help="Check recipes for errors.")
@click.argument("recipe", nargs=-1, shell_complete=names.recipes)
@options.option(
    "--tree",
    multiple=True,
    callback=options.split_trees,
    metavar="[COMPONENT=]DIR",
    help="Compare the recipe with a checked-out source tree (torch's, unless a component is specified).",
)
@options.json_option
@options.speech()
def check(recipe: tuple[str, ...], tree: dict[str, Path], as_json: bool) -> int:
    """Check recipes (default: all in the search path): schema, referenced files, switches, pins, facts.

    With --tree, also compares version, Python requirement, pin files, submodules and commit with a source
    tree.
    """
    from xpubuild.recipe.checked import check_recipes
    from xpubuild.ui.console import print_json
    from xpubuild.ui.console import show as display
    from xpubuild.ui.recipe_views import recipes_check_view

    document = check_recipes(recipe, tree)
    if as_json:
        print_json(document)
    else:
        display(recipes_check_view(document))
    return 0 if document["status"] == "ok" else 20


@command.command(short_help="Propose the pins of a release, as upstream has them.")
@click.argument("release")
@options.path_option(
    "--output", metavar="FILE", default=None, help="Write the proposed recipe to this file.", envvar=None
)
@options.json_option
@options.speech()
def bump(release: str, output: Path | None, as_json: bool) -> int:
    """Look up the pins of RELEASE upstream, and compare them with the recipe.

    RELEASE is a line, such as 2.13, for its newest patch, or one version. Tags and commits come from the
    repositories, other pins from the files of these commits, which are fetched as for an install. The
    recipe that --output writes extends the nearest one and has all pins.
    """
    import platformdirs

    from xpubuild.cli.settings import apply_settings
    from xpubuild.engine.files import write_atomic
    from xpubuild.engine.process import Cancel
    from xpubuild.engine.runner import cancel_on_signals
    from xpubuild.recipe.bump import bump as look_up
    from xpubuild.recipe.bump_text import document as as_document
    from xpubuild.supply.git.bare import RepositoryStore
    from xpubuild.supply.git.git import Git
    from xpubuild.ui.console import print_json
    from xpubuild.ui.console import show as display
    from xpubuild.ui.recipe_views import bump_view

    apply_settings()
    cancel, cache = Cancel(), platformdirs.user_cache_path("xpubuild")
    with cancel_on_signals(cancel):
        found = look_up(release, RepositoryStore(cache, Git.open(), cancel=cancel))
    document = as_document(found)
    if output is not None:
        write_atomic(output, document["text"].encode())
    if as_json:
        print_json(document)
    else:
        display(bump_view(document, str(output) if output else ""))
    return 0
