"""Recipes as text: the list of all, the summary of one, and all its values with their sources."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from xpubuild.recipe.facts import fact_of, leaves, needs_source
from xpubuild.recipe.order import in_order
from xpubuild.ui.parts import Commands, Facts, Part, Record, Records, Sentences, TableBuilder

_COMMIT_CHARACTERS = 12
_LABELS = {"gcc": "GCC", "oneapi": "oneAPI", "python": "Python", "driver": "driver", "gpu": "GPU"}
_CHOSEN = "Values without a source were chosen by the author of the recipe."
#: Row of the summary -> path of its value in the recipe.
_NEEDS = {
    "Python": "python",
    "host compiler": "host_compiler",
    "GCC": "gcc",
    "CMake": "cmake",
    "oneAPI": "oneapi",
    "oneAPI components": "oneapi_components",
    "drivers": "drivers",
    "GPUs": "gpus",
}


def recipes_view(entries: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the table of all recipes: a line for each, narrow enough for 80 columns."""
    table = TableBuilder(["recipe", "releases", "targets", "description"])
    for entry in entries:
        if entry["error"]:
            table.add(entry["name"], "", "", f"broken: {entry['error']['why']}")
        else:
            releases = [item for item in (entry.get("release"), *entry.get("patches", ())) if item]
            table.add(entry["name"], ", ".join(releases), ", ".join(entry["targets"]), entry["title"])
    return (table.build(),)


def summary_view(document: Mapping[str, Any], name: str) -> tuple[Part, ...]:
    """Return what a recipe builds and needs, on one screen; ``name`` is the name that the user typed."""
    recipe = document["recipe"]
    components = TableBuilder(["component", "distribution", "version", "commit", "build"])
    for component, says in recipe["components"].items():
        source = says["source"] or {}
        components.add(
            component,
            says["dist"],
            says["version"] or (recipe["release"] if component == "torch" else None),
            (source.get("commit") or source.get("ref") or "")[:_COMMIT_CHARACTERS],
            "only with --with" if says["optional"] else "always",
        )
    parts: list[Part] = [Facts(tuple(_facts(document))), components.build("Components")]
    if lost := _limits(recipe):
        parts.append(Sentences(lost, "Limitations"))
    unknown = len(document["unknown"])
    if unknown:
        parts.append(Sentences((f"{unknown} values could not be determined from upstream; -v lists them.",)))
    return (*parts, Commands((f"xpubuild recipes show {name} -v",), "All values with their sources"))


def _facts(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    recipe = document["recipe"]
    yield "recipe", f"{recipe['name']}: {recipe['title']}"
    yield "file", document["path"]
    if recipe["extends"]:
        yield "extends", recipe["extends"]
    releases = [recipe["release"], *reversed(in_order(recipe.get("patches", {})))]
    if releases[0]:
        yield "releases", ", ".join(releases)
    yield "targets", ", ".join(recipe["targets"])
    for row, key in _NEEDS.items():
        if recipe["needs"].get(key):
            yield row, _words(recipe["needs"][key])
    if recipe["toolchain"].get("mkl"):
        yield "MKL", recipe["toolchain"]["mkl"]
    abi = recipe["abi"]
    other = f"{1 - abi['default']} possible" if abi["honoured"] else "cannot be changed"
    yield "C++11 ABI", f"{abi['default']}, {other}"
    if recipe["arch"]:
        yield "AOT targets", _words(recipe["arch"])
    if recipe["variants"]:
        yield "variants", ", ".join(recipe["variants"])
    yield "disk space", f"{recipe['needs']['disk_gib']:g} GiB"


def _limits(recipe: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a line for each feature that is missing, and each combination that does not work."""
    lost = [f"without {item['feature']}{_condition(item)}" for item in recipe["loses"]]
    return (*lost, *(f"does not work{_condition(item)}: {item['why']}" for item in recipe["refuses"]))


def _condition(item: Mapping[str, Any]) -> str:
    conditions = {**item["when"], "driver": item.get("driver"), "gpu": item.get("gpu")}
    parts = [f"{_LABELS[name]} {text}" for name, text in conditions.items() if text]
    return f" (with {', '.join(parts)})" if parts else ""


def _words(value: Any) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)


def recipe_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return all values of a recipe as dotted keys, each with its source on a line below.

    Values that upstream has but the recipe does not know are listed as unknown; values that are not set are
    omitted. A value without a source was chosen by the author of the recipe, or lacks its source.
    """
    facts = document["recipe"].get("facts", {})
    body = {key: value for key, value in document["recipe"].items() if key not in ("facts", "patches")}
    unknown = set(document["unknown"])
    records = []
    for key, value in leaves(body):
        if key in unknown:
            continue
        fact = fact_of(key, facts)
        if fact is not None:
            about = _origin(fact)
        else:
            about = "source: none is given (confidence: none)" if needs_source(key) else ""
        records.append(Record(key, _words(value), about))
    records += [Record(key, "unknown", _origin(facts.get(key, {}))) for key in document["unknown"]]
    also = ", ".join(reversed(in_order(document["recipe"].get("patches", {}))))
    known = (("file", document["path"]), *((("also", also),) if also else ()))
    return (Facts(known), Sentences((_CHOSEN,)), Records(tuple(records)))


def _origin(fact: Mapping[str, Any]) -> str:
    told = "; ".join(str(fact[key]) for key in ("source", "note") if fact.get(key))
    return f"source: {told or 'none'} (confidence: {fact.get('confidence') or 'unknown'})"
