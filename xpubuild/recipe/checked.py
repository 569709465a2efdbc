"""``recipes check``: what is wrong with each recipe, by itself and against a source tree."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from xpubuild.errors import RecipeError, UsageError
from xpubuild.recipe.facts import fact_problems, without_source
from xpubuild.recipe.lint import lint
from xpubuild.recipe.load import available, load, release_of, requirement_file
from xpubuild.recipe.model import LoadedRecipe
from xpubuild.recipe.order import in_order
from xpubuild.recipe.patches import line_of, patches_of
from xpubuild.recipe.refused import refused
from xpubuild.recipe.tree import check_tree, require_tree
from xpubuild.recipe.tree_expected import expected
from xpubuild.resources import ops_project_dir
from xpubuild.supply.git.embedded import expected_commit
from xpubuild.supply.requirements import hashed_pins


def check_recipes(names: Sequence[str], trees: Mapping[str, Path] | None = None) -> dict[str, Any]:
    """Return the ``xpubuild.recipes-check/1`` document: what is wrong with each recipe.

    ``trees`` maps components to checked-out sources, which the one recipe that is named is held against.

    Raises:
        RecipeError: one single recipe was named and it cannot be read.
        UsageError: a tree is none, or it is not clear which recipe it is for.
    """
    if trees and len(names) != 1:
        raise UsageError("a source tree belongs to one recipe", fix="specify the recipe to compare it with")
    results = []
    for name in names or _every_file():
        result: dict[str, Any] = {"recipe": name, "problems": [], "warnings": [], "not_checked": []}
        try:
            _check(load(name), trees or {}, result)
        except RecipeError as error:
            if len(names) == 1:
                raise
            result["problems"] = [f"{error.what}: {error.why}"]
        results.append(result)
    status = "fail" if any(result["problems"] for result in results) else "ok"
    return {"schema": "xpubuild.recipes-check/1", "status": status, "recipes": results}


def _every_file() -> list[str]:
    found = available()
    return [str(found[name]) for name in in_order(found)]


def _check(loaded: LoadedRecipe, trees: Mapping[str, Path], result: dict[str, Any]) -> None:
    problems, warnings = _findings(loaded)
    if loaded.path.stem not in (loaded.recipe.name, line_of(loaded.recipe.name)):
        problems.insert(0, f"name is '{loaded.recipe.name}', the file is named '{loaded.path.stem}'")
    for version in patches_of(loaded.document):
        more, further = _patch_findings(loaded, version)
        # What the line has as well was said already.
        problems += [f"{version}: {text}" for text in more if text not in problems]
        warnings += [f"{version}: {text}" for text in further if text not in warnings]
    for component, folder in trees.items():
        wanted = expected(loaded.recipe, component)
        require_tree(wanted, folder)
        report = check_tree(wanted, folder)
        problems += [f"{component} in {folder}: {text}" for text in report.problems]
        result["not_checked"] += [f"{component}: {text}" for text in report.not_checked]
    result["problems"], result["warnings"] = problems, warnings


def _patch_findings(loaded: LoadedRecipe, version: str) -> tuple[list[str], list[str]]:
    if line_of(version) != loaded.path.stem:
        return [f"it is not a patch release of {loaded.path.stem}"], []
    try:
        return _findings(release_of(loaded, version))
    except RecipeError as error:
        return [f"{error.what}: {error.why}"], []


def _findings(loaded: LoadedRecipe) -> tuple[list[str], list[str]]:
    recipe = loaded.recipe
    problems = []
    needed = [*recipe.toolchain.requirements]
    for name, component in recipe.components.items():
        needed += [component.requirements] if component.requirements else []
        needed += component.build.requirements
        source = component.source
        if source is not None and source.embedded is not None and source.commit != _embedded_commit():
            problems.append(
                f"components.{name}.source.commit is {source.commit}, but the embedded sources are "
                f"{_embedded_commit()}"
            )
    for file in dict.fromkeys(needed):
        problems += _requirement_problems(loaded, file)
    for file in recipe.toolchain.requirements:
        problems += _left_out_problems(loaded, file)
    found = lint(recipe)
    bare = [f"{path} has no source in facts" for path in without_source(loaded)]
    return [*problems, *refused(recipe), *fact_problems(loaded), *found.problems], [*found.warnings, *bare]


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


def _left_out_problems(loaded: LoadedRecipe, name: str) -> list[str]:
    """Return what is left out and pinned all the same: it would be installed."""
    try:
        text = requirement_file(loaded, name).read_text("utf-8")
        pins = {canonicalize_name(pin.name) for pin in hashed_pins(text)}
    except RecipeError:
        return []  # said where the file itself is looked at
    left_out = sorted({canonicalize_name(item) for item in loaded.recipe.toolchain.leave_out} & pins)
    return [
        f"toolchain.leave_out lists {item}, which {name} pins: remove it from one of them"
        for item in left_out
    ]
