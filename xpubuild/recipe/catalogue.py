"""All recipes: listing, showing with sources, and linting."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from xpubuild.errors import RecipeError
from xpubuild.recipe.load import available, load, requirement_file
from xpubuild.recipe.model import LoadedRecipe
from xpubuild.resources import ops_project_dir
from xpubuild.source.embedded import expected_commit


def catalogue() -> list[dict[str, Any]]:
    """Return one entry per recipe; a broken one is listed with its error instead of hiding the rest."""
    entries = []
    for name, path in sorted(available().items()):
        entry: dict[str, Any] = {"name": name, "path": str(path)}
        try:
            recipe = load(str(path)).recipe
        except RecipeError as error:
            entry["error"] = error.to_json()
        else:
            if recipe.abstract:
                continue
            torch = recipe.components.get("torch")
            entry.update(
                title=recipe.title,
                targets=list(recipe.targets),
                torch=torch.version if torch else None,
                components=list(recipe.components),
                error=None,
            )
        entries.append(entry)
    return entries


def recipe_document(loaded: LoadedRecipe) -> dict[str, Any]:
    """Return the ``xpubuild.recipe/1`` document; values that are not known upstream are null."""
    return {
        "schema": "xpubuild.recipe/1",
        "path": str(loaded.path),
        "recipe": loaded.recipe.model_dump(mode="json", by_alias=True),
        "unknown": [path for path, fact in loaded.recipe.facts.items() if fact.confidence == "unknown"],
    }


def check_recipes(names: Sequence[str]) -> dict[str, Any]:
    """Return the ``xpubuild.recipes-check/1`` document: per recipe the list of problems.

    Raises:
        RecipeError: one single recipe was named and it cannot be read.
    """
    results = []
    for name in names or sorted(str(path) for path in available().values()):
        try:
            problems = _problems(load(name))
        except RecipeError as error:
            if len(names) == 1:
                raise
            problems = [f"{error.what}: {error.why}"]
        results.append({"recipe": name, "problems": problems})
    status = "fail" if any(result["problems"] for result in results) else "ok"
    return {"schema": "xpubuild.recipes-check/1", "status": status, "recipes": results}


def _problems(loaded: LoadedRecipe) -> list[str]:
    recipe, problems = loaded.recipe, []
    if recipe.name != loaded.path.stem:
        problems.append(f"name is '{recipe.name}', the file is named '{loaded.path.stem}'")
    needed = [*recipe.toolchain.requirements]
    for name, component in recipe.components.items():
        needed += [component.requirements] if component.requirements else []
        needed += component.build.requirements
        source = component.source
        if source is not None and source.embedded is not None and source.commit != _embedded_commit():
            problems.append(
                f"components.{name}.source.commit is {source.commit}, the embedded sources make"
                f" {_embedded_commit()}"
            )
    for file in needed:
        problems += _requirement_problems(loaded, file)
    for path in recipe.facts:
        if not _reaches(loaded.document, path):
            problems.append(f"facts names '{path}', which the recipe does not have")
    return problems


@functools.cache
def _embedded_commit() -> str:
    return expected_commit(ops_project_dir())


def _requirement_problems(loaded: LoadedRecipe, name: str) -> list[str]:
    try:
        text = requirement_file(loaded, name).read_text("utf-8")
    except RecipeError as error:
        return [error.what]
    entries = text.replace("\\\n", " ").splitlines()
    pins = [line.strip() for line in entries if line.strip() and line.strip()[0] not in "#-"]
    bare = [line.split()[0] for line in pins if "--hash" not in line]
    return [f"{name}: '{item}' has no hash" for item in bare]


def _reaches(document: Any, path: str) -> bool:
    for key in path.split("."):
        if not isinstance(document, dict) or key not in document:
            return False
        document = document[key]
    return True
