"""The sources of a recipe's values: which values are unknown, and which facts belong to no value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpubuild.recipe.model import Fact, LoadedRecipe

#: Parts whose keys are names of the author's choice, so a key that is not there is no misspelt one.
_OPEN = frozenset({"env", "config_settings", "components", "variants", "patches", "facts", "costs"})
#: Values that are true or not, whatever the recipe's author would like.
_OF_THE_WORLD = re.compile(
    r"(needs\.(?!disk_gib)|abi\.(?!note)|toolchain\.mkl|arch_upstream|loses|refuses|costs\."
    r"|components\.[^.]+\.(version|commit|requires|end_of_life|cxx11_abi)(\.|$)"
    r"|components\.[^.]+\.source\.(commit|tree|version|configure_time)(\.|$))"
)
_MISSING = object()


def unknown_paths(facts: Mapping[str, Fact]) -> list[str]:
    """Return the dotted paths of the values that upstream has and that we do not know."""
    return [path for path, fact in facts.items() if fact.confidence == "unknown"]


def fact_problems(loaded: LoadedRecipe) -> list[str]:
    """Return what is wrong with ``facts``: about values that are not there, or that are known after all."""
    problems = []
    whole = loaded.recipe.model_dump(mode="json", by_alias=True)
    for path, fact in loaded.recipe.facts.items():
        value = look_up(loaded.document, path, _MISSING)
        if fact.confidence != "unknown":
            if value is _MISSING:
                problems.append(f"facts lists '{path}', which the recipe does not have")
        elif value is _MISSING or value is None:
            if not _possible(whole, path.split(".")):
                problems.append(f"facts says that '{path}' is unknown, but recipes have no such key")
        elif not isinstance(value, (Mapping, list)):
            problems.append(f"facts says that '{path}' is unknown, but the recipe says {value!r}")
    return problems


def carried(
    base: Mapping[str, Any], over: Mapping[str, Any], merged: dict[str, Any], *, same_author: bool = False
) -> dict[str, Any]:
    """Return a merged document whose facts are about its values.

    A fact that ``over`` gives replaces the one below as a whole. One that ``base`` gave goes where its value
    was changed: the source of the old value says nothing about the new one. Of a fact about a whole part, the
    values in it that stayed keep theirs. With ``same_author`` both stand in one file, so what ``base`` says
    of the origin of a value is about that of ``over``, too; only what was unknown and is known now goes.
    """
    below, above = base.get("facts"), over.get("facts") or {}
    if not isinstance(below, Mapping) or not isinstance(above, Mapping):
        return merged
    facts: dict[str, Any] = {}
    for path, fact in below.items():
        if path not in above:
            before, after = (look_up(document, str(path), _MISSING) for document in (base, merged))
            stays = same_author and before is not _MISSING and after is not _MISSING
            kept = [path] if stays else _still_true(str(path), before, after)
            facts.update({key: fact for key in kept if key not in below or key == path})
    facts.update((path, fact) for path, fact in above.items() if fact is not None)
    return {**merged, "facts": facts}


def _still_true(path: str, before: Any, after: Any) -> Iterator[str]:
    if before == after:
        yield path
    elif isinstance(before, Mapping) and isinstance(after, Mapping):
        for key, value in before.items():
            if key in after:
                yield from _still_true(f"{path}.{key}", value, after[key])


def leaves(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Return the values of a document by dotted path.

    A list of plain values is one value, lists of mappings are numbered; what is empty is left out.
    """
    if isinstance(value, Mapping):
        return [leaf for key, item in value.items() for leaf in leaves(item, f"{prefix}.{key}".lstrip("."))]
    if isinstance(value, (list, tuple)):
        if any(isinstance(item, Mapping) for item in value):
            return [leaf for number, item in enumerate(value) for leaf in leaves(item, f"{prefix}.{number}")]
        return [(prefix, value)] if value else []
    return [] if value is None or value == "" else [(prefix, value)]


def fact_of(path: str, facts: Mapping[str, Any]) -> Any | None:
    """Return the fact about a value, or about the nearest part of the recipe that holds it."""
    parts = path.split(".")
    found = (facts.get(".".join(parts[:length])) for length in range(len(parts), 0, -1))
    return next((fact for fact in found if fact is not None), None)


def needs_source(path: str) -> bool:
    """Whether a value says something about the world; all others are what the author of the recipe wants."""
    return _OF_THE_WORLD.match(path) is not None


def without_source(loaded: LoadedRecipe) -> list[str]:
    """Return the paths of values about the world that have no source."""
    body = {key: value for key, value in loaded.document.items() if key not in ("facts", "patches")}
    return [path for path, _ in leaves(body) if needs_source(path) and not fact_of(path, loaded.recipe.facts)]


def look_up(document: Any, path: str, default: Any = None) -> Any:
    """Return the value at a dotted path; keys may hold dots, items of lists are numbered from 0."""
    return next(_values(document, path.split(".")), default)


def _values(node: Any, parts: Sequence[str]) -> Iterator[Any]:
    if not parts:
        yield node
    elif isinstance(node, Mapping):
        for length in range(1, len(parts) + 1):
            key = ".".join(parts[:length])
            if key in node:
                yield from _values(node[key], parts[length:])
    elif isinstance(node, list) and parts[0].isdecimal() and int(parts[0]) < len(node):
        yield from _values(node[int(parts[0])], parts[1:])


def _possible(whole: Any, parts: Sequence[str]) -> bool:
    """Whether a recipe could have a key; ``whole`` is one with every default written out."""
    for number, part in enumerate(parts):
        if not isinstance(whole, Mapping):
            return whole is None or isinstance(whole, list)
        if part not in whole:
            return number > 0 and parts[number - 1] in _OPEN
        whole = whole[part]
    return True
