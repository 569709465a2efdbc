"""``recipes check``: what is wrong with each recipe, by itself and against a source tree."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.errors import RecipeError, UsageError
from xpubuild.recipe.facts import fact_problems, without_source
from xpubuild.recipe.lint import lint
from xpubuild.recipe.load import available, line_of, load, release_of, requirement_file
from xpubuild.recipe.model import Component, GitSource, LoadedRecipe, Recipe
from xpubuild.recipe.order import in_order
from xpubuild.recipe.recipe_json import CheckedRecipe, RecipesCheckDocument
from xpubuild.recipe.tree import check_tree, expected
from xpubuild.resources import ops_project_dir
from xpubuild.supply.archives import ENDINGS, file_name
from xpubuild.supply.depot.entries import is_filename
from xpubuild.supply.git.embedded import expected_commit
from xpubuild.supply.requirements import hashed_pins

Findings = tuple[list[str], list[str]]


def check_recipes(names: Sequence[str], trees: Mapping[str, Path] | None = None) -> RecipesCheckDocument:
    """Return the ``xpubuild.recipes-check/1`` document: what is wrong with each recipe.

    ``trees`` maps components to checked-out sources, which the one recipe that is named is compared with.

    Raises:
        RecipeError: one single recipe was named and it cannot be read.
        UsageError: a tree is none, or it is not clear which recipe it is for.
    """
    if trees and len(names) != 1:
        raise UsageError("a source tree belongs to one recipe", fix="specify the recipe to compare it with")
    found = available()
    results: list[CheckedRecipe] = []
    for name in names or [str(found[name]) for name in in_order(found)]:
        result: CheckedRecipe = {"recipe": name, "problems": [], "warnings": [], "not_checked": []}
        try:
            _check(load(name), trees or {}, result)
        except RecipeError as error:
            if len(names) == 1:
                raise
            result["problems"] = [f"{error.what}: {error.why}"]
        results.append(result)
    failed = any(result["problems"] for result in results)
    return {
        "schema": "xpubuild.recipes-check/1",
        "status": "fail" if failed else "ok",
        "recipes": results,
    }


def _check(loaded: LoadedRecipe, trees: Mapping[str, Path], result: CheckedRecipe) -> None:
    reports = {name: check_tree(expected(loaded.recipe, name), folder) for name, folder in trees.items()}
    read = reports["torch"].found.get("variables", ()) if "torch" in reports else ()
    problems, warnings = _findings(loaded, read)
    if loaded.path.stem not in (loaded.recipe.name, line_of(loaded.recipe.name)):
        problems.insert(0, f"name is '{loaded.recipe.name}', the file is named '{loaded.path.stem}'")
    for version in loaded.recipe.patches:
        more, further = _patch_findings(loaded, version)
        # What the line has as well was reported already.
        problems += [f"{version}: {text}" for text in more if text not in problems]
        warnings += [f"{version}: {text}" for text in further if text not in warnings]
    for component, report in reports.items():
        problems += [f"{component} in {trees[component]}: {text}" for text in report.problems]
        result["not_checked"] += [f"{component}: {text}" for text in report.not_checked]
    result["problems"], result["warnings"] = problems, warnings


def _patch_findings(loaded: LoadedRecipe, version: str) -> Findings:
    if line_of(version) != loaded.path.stem:
        return [f"it is not a patch release of {loaded.path.stem}"], []
    try:
        return _findings(release_of(loaded, version))
    except RecipeError as error:
        return [f"{error.what}: {error.why}"], []


def _findings(loaded: LoadedRecipe, read: Collection[str] = ()) -> Findings:
    problems, warnings = lint(loaded.recipe, read)
    bare = [f"{path} has no source in facts" for path in without_source(loaded)]
    found = (*_of_requirements(loaded), *_of_components(loaded.recipe), *fact_problems(loaded), *problems)
    return list(dict.fromkeys(found)), [*warnings, *bare]


def _of_requirements(loaded: LoadedRecipe) -> Iterator[str]:
    """Yield requirements without hashes, and what is left out and would be installed all the same."""
    toolchain = loaded.recipe.toolchain
    files = [*toolchain.requirements]
    for component in loaded.recipe.components.values():
        files += [*filter(None, (component.requirements,)), *component.build.requirements]
    for file in dict.fromkeys(files):
        try:
            text = requirement_file(loaded, file).read_text("utf-8")
        except RecipeError as error:
            yield error.what
            continue
        entries = (line.strip() for line in text.replace("\\\n", " ").splitlines())
        bare = [line.split()[0] for line in entries if line and line[0] not in "#-" and "--hash" not in line]
        yield from (f"{file}: '{item}' has no hash" for item in bare)
        if file in toolchain.requirements and not bare:
            pins = {canonicalize_name(pin.name) for pin in hashed_pins(text)}
            for item in sorted({canonicalize_name(name) for name in toolchain.leave_out} & pins):
                yield f"toolchain.leave_out lists {item}, which {file} pins: remove it from one of them"


@functools.cache
def _embedded_commit() -> str:
    return expected_commit(ops_project_dir())


def _of_components(recipe: Recipe) -> Iterator[str]:
    """Yield what no plan of this recipe could use; of an abstract one, what it says already."""
    for name, component in recipe.components.items():
        if component.source is not None:
            yield from _of_source(recipe, name, component, component.source)
        for key, item in component.build.archives.items():
            if item.url and not (is_filename(file_name(item.url)) and item.url.endswith(ENDINGS)):
                where = f"components.{name}.build.archives.{key}.url"
                yield f"{where} does not end in the name of an archive ({', '.join(ENDINGS)})"


def _of_source(recipe: Recipe, name: str, component: Component, source: GitSource) -> Iterator[str]:
    where = f"components.{name}.source"
    # The sources of an optional component may be on record as unknown.
    fact = recipe.facts.get(f"{where}.commit")
    on_record = component.optional and fact is not None and fact.confidence == "unknown"
    open_ = source.commit is None and source.ref is None and not on_record
    if component.kind == "source" and not recipe.abstract and open_:
        yield f"{where} has neither commit nor ref"
    if source.embedded is not None and source.commit != _embedded_commit():
        yield f"{where}.commit is {source.commit}, but the embedded sources are {_embedded_commit()}"
