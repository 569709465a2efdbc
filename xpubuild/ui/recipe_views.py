"""Documents about recipes, for ``show``: the list, one recipe, checks, and the matrix of releases.

The matrix of all releases is four small tables instead of one that fits no terminal; for one host, the
verdict stands first, then its reasons.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from xpubuild.recipe.facts import fact_of, leaves, needs_source
from xpubuild.recipe.order import in_order
from xpubuild.ui.parts import DIGITS, Commands, Document, Parts, Sentences, Table, facts, listed, table

_LABELS = {
    "gpu": "GPU", "gpu_targets": "its AOT targets", "oneapi": "oneAPI", "python": "Python", "gcc": "GCC",
    "host_compiler": "host compiler", "cmake": "CMake", "cxx11_abi": "C++ ABI", "arch": "AOT targets",
    "loader": "Level Zero loader", "oneapi_components": "oneAPI components", "gpus": "GPUs",
}  # fmt: skip
_NEEDS = ("python", "host_compiler", "gcc", "cmake", "oneapi", "oneapi_components", "drivers", "gpus")


def recipes_view(entries: Sequence[Document]) -> Parts:
    """Return the table of all recipes: a line for each, narrow enough for 80 columns."""

    def releases(entry: Document) -> list[str]:
        return [item for item in (entry.get("release"), *entry.get("patches", ())) if item]

    rows = [
        (entry["name"], "", "", f"broken: {entry['error']['why']}") if entry["error"]
        else (entry["name"], releases(entry), entry["targets"], entry["title"])
        for entry in entries
    ]  # fmt: skip
    return (table("", ("recipe", "releases", "targets", "description"), rows),)


def recipe_summary_view(document: Document, name: str) -> Parts:
    """Return what a recipe builds and needs, on one screen; ``name`` is the name that the user typed."""
    recipe, unknown = document["recipe"], len(document["unknown"])
    open_ = f"{unknown} values could not be determined from upstream; -v lists them."
    abi, needs = recipe["abi"], recipe["needs"]
    other = f"{1 - abi['default']} possible" if abi["honoured"] else "cannot be changed"
    releases = [recipe["release"], *reversed(in_order(recipe.get("patches", {})))]
    components = [
        {**(says["source"] or {}), **says, "name": key} for key, says in recipe["components"].items()
    ]
    return (
        facts({
            "recipe": f"{recipe['name']}: {recipe['title']}",
            "file": document["path"],
            "extends": recipe["extends"],
            "releases": releases if releases[0] else "",
            "targets": recipe["targets"],
            **{_LABELS.get(key, key): needs.get(key) for key in _NEEDS},
            "MKL": recipe["toolchain"].get("mkl"),
            "C++11 ABI": f"{abi['default']}, {other}",
            "AOT targets": recipe["arch"],
            "variants": list(recipe["variants"]),
            "disk space": f"{needs['disk_gib']:g} GiB",
        }),
        listed("Components", components, {
            "component": "name",
            "distribution": "dist",
            "version": lambda item: item["version"] or (recipe["release"] if item["name"] == "torch" else ""),
            "commit": lambda item: (item.get("commit") or item.get("ref") or "")[:DIGITS],
            "build": lambda item: "only with --with" if item["optional"] else "always",
        }),
        Sentences(
            (
                *(f"without {item['feature']}{_condition(item)}" for item in recipe["loses"]),
                *(f"does not work{_condition(item)}: {item['why']}" for item in recipe["refuses"]),
            ),
            "Limitations",
        ),
        Sentences((open_,) if unknown else ()),
        Commands((f"xpubuild recipes show {name} -v",), "All values with their sources"),
    )  # fmt: skip


def _condition(item: Document) -> str:
    conditions = {**item["when"], "driver": item.get("driver"), "gpu": item.get("gpu")}
    parts = [f"{_LABELS.get(name, name)} {text}" for name, text in conditions.items() if text]
    return f" (with {', '.join(parts)})" if parts else ""


def recipe_view(document: Document) -> Parts:
    """Return all values of a recipe as dotted keys, each with its source on a line below.

    Values that upstream has but the recipe does not know are listed as unknown; values that are not set are
    omitted. A value without a source was chosen by the author of the recipe, or lacks its source.
    """
    known, unknown = document["recipe"].get("facts", {}), document["unknown"]
    body = {key: value for key, value in document["recipe"].items() if key not in ("facts", "patches")}
    lines = []
    for key, value in leaves(body):
        if key not in unknown:
            fact = fact_of(key, known)
            own = "source: none is given (confidence: none)" if needs_source(key) else ""
            origin = own if fact is None else _origin(fact)
            lines.append(f"{key}: {', '.join(map(str, value)) if isinstance(value, list) else value}")
            lines += [f"    {origin}"] if origin else []
    for key in unknown:
        lines += [f"{key}: unknown", f"    {_origin(known.get(key, {}))}"]
    also = [*reversed(in_order(document["recipe"].get("patches", {})))]
    return (
        facts({"file": document["path"], "also": also}),
        Sentences(("Values without a source were chosen by the author of the recipe.",)),
        Sentences(tuple(lines)),
    )


def _origin(fact: Document) -> str:
    words = "; ".join(str(fact[key]) for key in ("source", "note") if fact.get(key))
    return f"source: {words or 'none'} (confidence: {fact.get('confidence') or 'unknown'})"


def recipes_check_view(document: Document) -> Parts:
    """Return what was found in recipes."""
    rows = [
        (result["recipe"], f"{kind}{text}")
        for result in document["recipes"]
        for kind, texts in (
            ("", result["problems"] or ["ok"]),
            ("warning: ", result.get("warnings", ())),
            ("not checked: ", result.get("not_checked", ())),
        )
        for text in texts
    ]
    return (table("", ("recipe", "result"), rows),)


def bump_view(document: Document, written: str = "") -> Parts:
    """Return the pins that differ from those upstream, what stays open, and how to go on."""
    changed = [item for item in document["proposals"] if item["changed"]]
    release, same = document["release"], len(document["proposals"]) - len(changed)
    command = f"check {written}" if written else f"bump {release} --output FILE"
    counts = f"{len(changed)} pins of {release} differ from recipe {document['base']}, {same} are the same"
    return (
        listed("", changed, {"key": "key", "recipe": "recipe", "upstream": "upstream"}),
        Sentences(tuple(document["open"]), "To be looked up"),
        Sentences((counts,)),
        Commands((f"xpubuild recipes {command}",), "Next steps"),
    )


def matrix_view(document: Document) -> Parts:
    """Return an ``xpubuild.matrix/1`` document: the answer where a question was asked, else the tables."""
    rows = document["releases"]
    if document["situation"] is not None:
        return _answer(document["situation"], rows)
    return (
        listed("Build requirements", rows, {
            "release": "release", "oneAPI": _needed("oneapi"), "Python": _needed("python"),
            "GCC": _needed("gcc"), "CMake": _needed("cmake"), "C++": _needed("cxx_standard"),
            "ABI": lambda row: _abi(row["cxx11_abi"]),
        }),
        listed("Builds with this oneAPI", rows, {
            "release": "release",
            "upstream's pairing": lambda row: _toolkits(row, "pairing") or "unknown",
            "tolerated": lambda row: _toolkits(row, "tolerated"),
            "only with patches": lambda row: _toolkits(row, "patched"),
        }),
        _components(rows),
        listed("Runs on", rows, {
            "release": "release", "GPUs": _needed("gpus"), "drivers": _needed("drivers"),
            "default AOT targets": lambda row: row["arch"] or "unknown",
        }),
        _limitations(rows),
    )  # fmt: skip


def _needed(key: str) -> Any:
    def text(row: Document) -> Any:
        if row[key] in (None, []):
            return "unknown" if f"needs.{key}" in row["unknown"] else "any"
        return row[key]

    return text


def _abi(rule: Document) -> str:
    return f"{rule['default']} or {1 - rule['default']}" if rule["honoured"] else str(rule["default"])


def _toolkits(row: Document, standing: str) -> str:
    return ", ".join(item["oneapi"] for item in row["toolkits"] if item["standing"] == standing)


def _components(rows: Sequence[Document]) -> Table:
    """Return the versions of the components of each release, with the distribution where it differs."""
    dists: dict[str, set[str]] = {}
    for row in rows:
        for name, component in row["components"].items():
            dists.setdefault(name, set()).add(component["dist"])

    def version(row: Document, name: str) -> str:
        component = row["components"].get(name)
        if component is None or not component["version"]:
            return "" if component is None else "unknown"
        return " ".join((*([component["dist"]] if len(dists[name]) > 1 else []), component["version"]))

    cells = ([row["release"], *(version(row, name) for name in dists)] for row in rows)
    return table("Matching versions", ("release", *dists), cells)


def _limitations(rows: Sequence[Document]) -> Table:
    """Return what is lost or known not to work under which conditions."""
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        items = [(item["when"], f"without {item['feature']}") for item in row["loses"]]
        items += [(item["when"], f"does not work: {item['why']}") for item in row["refuses"]]
        for when, what in items:
            found.setdefault((when or "always", what), []).append(row["release"])
    every = [row["release"] for row in rows]
    cells = ((when, what, _ranges(names, every)) for (when, what), names in found.items())
    return table("Limitations", ("when", "what", "releases"), cells)


def _ranges(names: Sequence[str], every: Sequence[str]) -> str:
    """Return releases as ranges: 2.6 to 2.9."""
    runs = ([*run] for inside, run in groupby(every, lambda name: name in names) if inside)
    return ", ".join(run[0] if len(run) == 1 else f"{run[-1]} to {run[0]}" for run in runs)


def _answer(situation: Document, rows: Sequence[Document]) -> Parts:
    """Return the verdict in one line, the situation, the releases with their reasons, and where more is."""
    answer = [verdict(rows)]
    without_oneapi = [
        row["verdict"]["builds"] == "no" and "oneapi" in _reasons(row, "no", "constraint") for row in rows
    ]
    if situation["target"] != "cpu" and rows and all(without_oneapi):
        answer.append("for the CPU, no oneAPI is needed: add --target cpu")
    named = {
        _LABELS.get(name, name): "none" if value == [] and name in ("oneapi", "python") else value
        for name, value in situation.items()
    }
    return (
        Sentences(tuple(answer)),
        facts(named, "Host"),
        listed("Here", rows, {
            "release": "release", "builds": "verdict.builds", "runs": "verdict.runs",
            "with oneAPI": lambda row: _oneapi(row["verdict"]),
            "reasons and missing features": _why,
        }),
        Sentences(("For the requirements of every release, run `xpubuild recipes matrix` without options.",)),
    )  # fmt: skip


def verdict(rows: Sequence[Document]) -> str:
    """Return the answer in one sentence; ``rows`` begin with the newest release, branches come last."""
    builds = [row for row in rows if row["verdict"]["builds"] == "yes"]
    perhaps = [row for row in rows if row["verdict"]["builds"] == "unknown"]
    if builds:
        return _newest(builds, rows)
    if perhaps:
        open_ = _shared([_reasons(row, "unknown", "constraint") for row in perhaps])
        many = "1 release" if len(perhaps) == 1 else f"{len(perhaps)} releases"
        return f"no release is known to build here; {many} may, the newest is {perhaps[0]['release']}" + (
            f"; unknown: {', '.join(_LABELS.get(name, name) for name in open_)}" if open_ else ""
        )
    if not rows:
        return "no release: none of the recipes describes one"
    why = _shared([_reasons(row, "no", "found") for row in rows])
    return f"no release builds here: {'; '.join(why) or 'the table has the reason for each release'}"


def _newest(builds: Sequence[Document], rows: Sequence[Document]) -> str:
    """Return the newest release that builds, whether it runs here, and which one does if it does not."""
    # As plan does without a recipe: what has no commit, or is only tolerated, is asked for by name.
    pinned = [row for row in builds if row.get("pinned", True)]
    paired = [
        row for row in pinned if (row["verdict"].get("toolkit") or {}).get("kind", "pairing") == "pairing"
    ]
    first = (paired or pinned or builds)[0]
    texts = [f"newest that builds here: {first['release']}"]
    before = builds[: builds.index(first)]
    if tolerated := ", ".join(row["release"] for row in before if row in pinned):
        texts[0] += f" (and {tolerated}, with a oneAPI that upstream only tolerates)"
    if newer := [row for row in before if row not in pinned]:
        names, command = ", ".join(row["release"] for row in newer), f"xpubuild install {newer[0]['recipe']}"
        texts[0] += f" (and {names} without a commit in the recipe: '{command}' looks it up)"
    runs = first["verdict"]["runs"]
    if runs == "no":
        other = next((row["release"] for row in builds if row["verdict"]["runs"] == "yes"), None)
        texts.append("it does not run here" + (f"; newest that builds and runs: {other}" if other else ""))
    else:
        texts.append("it runs here too" if runs == "yes" else "it is unknown whether it runs here")
    lost = [item["feature"] for item in first["verdict"]["loses"] if item["certain"]]
    texts += [f"it lacks {', '.join(lost)}"] if lost else []
    return "; ".join((*texts, f"{len(builds)} of {len(rows)} releases build"))


def _reasons(row: Document, answer: str, field: str) -> list[str]:
    """Return ``field`` of each reason that leaves the build of a release at ``answer``."""
    reasons = row["verdict"]["reasons"]
    return [item[field] for item in reasons if (item["concern"], item["answer"]) == ("builds", answer)]


def _shared(texts: Sequence[Sequence[str]]) -> list[str]:
    """Return what is the same for every release."""
    return [text for text in dict.fromkeys(texts[0]) if all(text in others for others in texts)]


def _oneapi(verdict: Document) -> str:
    """Return the oneAPI and how upstream stands to it; nothing where none would be used."""
    standing = verdict["toolkit"]
    return f"{verdict['oneapi']}: {standing['text']}" if standing else verdict["oneapi"] or ""


def _why(row: Document) -> str:
    verdict = row["verdict"]
    reasons = [item for item in verdict["reasons"] if item["concern"] != "note"]
    texts = [_reason(item) for item in [item for item in reasons if item["answer"] == "no"] or reasons]
    if verdict["builds"] != "no":
        if not row.get("pinned", True):
            texts.insert(0, "the commit is looked up upstream")
        texts += [
            f"{'lacks' if item['certain'] else 'may lack'} {item['feature']}"
            + (f" ({item['because']})" if item["because"] else "")
            for item in verdict["loses"]
        ]
    texts += [item["found"] for item in verdict["reasons"] if item["concern"] == "note"]
    patches: Iterable[str] = verdict["toolkit"]["patches"] if verdict["toolkit"] else ()
    texts += [f"{verdict['toolkit']['text']}: {'; '.join(patches)}"] if patches else []
    return ". ".join(dict.fromkeys(texts))


def _reason(item: Mapping[str, str]) -> str:
    if item["wanted"]:
        return f"needs {item['wanted']}; {item['found']}"
    return item["found"] if item["answer"] == "no" else f"possibly: {item['found']}"
