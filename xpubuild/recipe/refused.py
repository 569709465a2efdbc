"""Finds values of a recipe that a plan would reject: URLs, paths, open pins, impossible constraints.

Pure: a recipe in, problems out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from xpubuild.errors import RecipeError
from xpubuild.recipe.model import Archive, Component, ConfigureTime, GitSource, Recipe
from xpubuild.supply.archives import ENDINGS, file_name
from xpubuild.supply.git.pin import Pin, is_ref, problem_with
from xpubuild.supply.index.files import is_filename

#: Stands for what a recipe leaves open, so that the rest of its pin can be looked at.
_SOME_URL, _SOME_COMMIT = "/embedded", "0" * 40
_HIGHEST = "99999999"


def refused(recipe: Recipe) -> list[str]:
    """Return what no plan of this recipe could use; of an abstract one, what it says already."""
    problems: list[str] = []
    for name, component in recipe.components.items():
        if component.source is not None:
            problems += _source(recipe, name, component, component.source)
        if not _inside(component.build.source_dir):
            problems.append(
                f"components.{name}.build.source_dir is '{component.build.source_dir}', which is not below"
                " the checkout"
            )
        for key, item in component.build.archives.items():
            problems += _archive(f"components.{name}.build.archives.{key}", item)
    problems += [f"{path} is '{text}', which no version matches" for path, text in _specifiers(recipe)
                 if not satisfiable(text)]  # fmt: skip
    return list(dict.fromkeys(problems))


def satisfiable(specifier: str) -> bool:
    """Whether there is a version that meets all clauses of a specifier, such as not ``>=13,<12``."""
    clauses = SpecifierSet(specifier)
    # A range that holds any version holds one at, or next to, the end of one of its clauses.
    candidates = {Version("0"), Version(_HIGHEST)}
    for clause in clauses:
        if clause.operator == "===":
            return len(clauses) == 1 or clauses.contains(clause.version, prereleases=True)
        candidates |= set(_around(clause.version))
    return any(clauses.contains(candidate, prereleases=True) for candidate in candidates)


def _around(text: str) -> Iterator[Version]:
    bound = Version(text.removesuffix(".*"))
    yield bound
    epoch = f"{bound.epoch}!" if bound.epoch else ""
    *head, last = bound.release
    for numbers in ((*bound.release, 0, 0, 0, 1), (*head, last + 1), (*head, max(last - 1, 0), _HIGHEST)):
        yield Version(epoch + ".".join(map(str, numbers)))
    if bound.pre is not None:
        yield Version(f"{epoch}{'.'.join(map(str, bound.release))}{bound.pre[0]}{bound.pre[1] + 1}")


def _source(recipe: Recipe, name: str, component: Component, source: GitSource) -> Iterator[str]:
    where = f"components.{name}.source"
    try:
        Pin(
            url=_SOME_URL if source.url is None else source.url,
            commit=source.commit or "0" * len(source.tree or _SOME_COMMIT),
            tree=source.tree,
            ref=source.ref,
            skip=tuple(source.skip_submodules),
        )
    except RecipeError as error:
        yield f"{where}: {error.what}: {error.why}"
    if component.kind == "source" and not recipe.abstract and _open(recipe, name, component, source):
        yield f"{where} has neither commit nor ref"
    for path in source.made_by_build:
        if not _inside(path):
            yield f"{where}.made_by_build lists '{path}', which is not below the checkout"
    for number, item in enumerate(source.configure_time):
        yield from _configure_time(f"{where}.configure_time.{number}", item)


def _open(recipe: Recipe, name: str, component: Component, source: GitSource) -> bool:
    """Whether the sources are not named; those of an optional component may be on record as unknown."""
    fact = recipe.facts.get(f"components.{name}.source.commit")
    on_record = component.optional and fact is not None and fact.confidence == "unknown"
    return source.commit is None and source.ref is None and not on_record


def _configure_time(where: str, item: ConfigureTime) -> Iterator[str]:
    reason = problem_with(item.url)
    if reason is not None:
        yield f"{where}.url is not valid: {reason}"
    for key, path in (("path", item.path), ("pin_file", item.pin_file)):
        if path is not None and (not _inside(path) or PurePosixPath(path) == PurePosixPath()):
            yield f"{where}.{key} is '{path}', which is not below the checkout"
    if item.ref is not None and not is_ref(item.ref):
        yield f"{where}.ref is '{item.ref}', which is not the name of a tag or branch"


def _archive(where: str, item: Archive) -> Iterator[str]:
    if item.url is not None:
        reason = problem_with(item.url)
        if reason is not None:
            yield f"{where}.url is not valid: {reason}"
        elif not is_filename(file_name(item.url)) or not item.url.endswith(ENDINGS):
            yield f"{where}.url does not end in the name of an archive ({', '.join(ENDINGS)})"
    for key, path in (("folder", item.folder), ("pin_file", item.pin_file)):
        if path is not None and not _inside(path):
            yield f"{where}.{key} is '{path}', which is not a path below it"


def _inside(path: str) -> bool:
    """Whether a path stays where it starts: relative, and never a step up."""
    return path != "" and not path.startswith(("/", "-")) and ".." not in PurePosixPath(path).parts


def _specifiers(recipe: Recipe) -> Iterator[tuple[str, str]]:
    needs = recipe.needs
    for key, value in (
        ("python", needs.python), ("gcc", needs.gcc), ("cmake", needs.cmake), ("oneapi", needs.oneapi),
    ):  # fmt: skip
        if value is not None:
            yield f"needs.{key}", value
    for name, component in recipe.components.items():
        if component.source is not None and component.source.requires_python is not None:
            yield f"components.{name}.source.requires_python", component.source.requires_python
        for number, units in enumerate(component.build.large_units):
            if units.gcc is not None:
                yield f"components.{name}.build.large_units.{number}.gcc", units.gcc
    conditions = [(f"loses.{number}", dict(item.when)) for number, item in enumerate(recipe.loses)]
    conditions += [(f"refuses.{number}", dict(item.when)) for number, item in enumerate(recipe.refuses)]
    for path, when in conditions:
        yield from ((f"{path}.when.{what}", text) for what, text in when.items())
