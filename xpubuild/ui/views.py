"""How documents look to a person: status, clean, recipes, audits. Each returns parts for ``console.show``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.recipe.facts import fact_of, leaves, needs_source
from xpubuild.recipe.order import in_order
from xpubuild.ui import format as show
from xpubuild.ui.parts import Column, Facts, Part, Record, Records, Sentences, TableBuilder

_DIGEST_CHARACTERS = 12
_CHOSEN = "A value with no source below it was chosen by the author of the recipe."


def status_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.status/1`` document."""
    steps = TableBuilder(["step", "status", Column("time", right=True), "when", "detail"])
    held = document["locked_by"]
    for step in document["steps"]:
        duration = step["duration_s"]
        steps.add(
            step["id"],
            "interrupted" if step["status"] == "running" and not held else step["status"],
            show.duration(duration) if duration is not None else "",
            _when(step["started"]),
            step["detail"],
        )
    runs = TableBuilder(["run", "recipe", "status", "when"])
    for run in document["runs"][-5:]:
        runs.add(run["id"], run["recipe"], run["status"] or "did not end", _when(run["started"]))
    facts = Facts(
        (
            ("workspace", document["workspace"]),
            ("in use by", f"process {held.get('pid')} ({held.get('command')})" if held else "nobody"),
        )
    )
    return (facts, steps.build("Steps"), runs.build("Last runs"))


def clean_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.clean/1`` document."""
    table = TableBuilder(["path", "removed", "why"])
    word = "would be" if document["dry_run"] else "yes"
    for path in document["removed"]:
        table.add(path, word, "")
    for item in document["kept"]:
        table.add(item["path"], "kept", item["why"])
    freed = () if document["dry_run"] else (("freed", show.size(document["freed_bytes"])),)
    return (Facts((("workspace", document["workspace"]), *freed)), table.build())


def recipes_view(entries: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the table of all recipes: each is a line with its newest release and the older ones it has."""
    table = TableBuilder(["recipe", "release", "also", "targets", "components", "what it is"])
    for entry in entries:
        if entry["error"]:
            table.add(entry["name"], "", "", "", "", f"broken: {entry['error']['why']}")
        else:
            table.add(
                entry["name"],
                entry.get("release"),
                ", ".join(entry.get("patches", ())),
                ", ".join(entry["targets"]),
                ", ".join(entry["components"]),
                entry["title"],
            )
    return (table.build(),)


def recipe_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return one recipe as dotted keys and values, each with its source on a line below.

    What upstream has and the recipe does not know is there as unknown; what is merely not set is left out.
    A value without a source is one that the recipe's author has chosen, or one that should have a source.
    """
    facts = document["recipe"].get("facts", {})
    body = {key: value for key, value in document["recipe"].items() if key not in ("facts", "patches")}
    unknown = set(document["unknown"])
    records = []
    for key, value in leaves(body):
        if key in unknown:
            continue
        fact = fact_of(key, facts)
        words = ", ".join(str(item) for item in value) if isinstance(value, list) else str(value)
        if fact is not None:
            about = _origin(fact)
        else:
            about = "source: none is given (confidence: none)" if needs_source(key) else ""
        records.append(Record(key, words, about))
    records += [Record(key, "unknown", _origin(facts.get(key, {}))) for key in document["unknown"]]
    also = ", ".join(reversed(in_order(document["recipe"].get("patches", {}))))
    known = (("file", document["path"]), *((("also", also),) if also else ()))
    return (Facts(known), Sentences((_CHOSEN,)), Records(tuple(records)))


def check_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return what was found in recipes."""
    table = TableBuilder(["recipe", "result"])
    for result in document["recipes"]:
        for problem in result["problems"] or ["ok"]:
            table.add(result["recipe"], problem)
        for warning in result.get("warnings", ()):
            table.add(result["recipe"], f"warning: {warning}")
        for what in result.get("not_checked", ()):
            table.add(result["recipe"], f"not checked: {what}")
    return (table.build(),)


def audit_view(reports: Sequence[Mapping[str, Any]]) -> tuple[Part, ...]:
    """Return the audits of wheels: one row per shared object, then what was found."""
    objects = TableBuilder(["object", "C++ ABI", Column("new:old", right=True), "needs"])
    findings = TableBuilder(["severity", "object", "what"])
    wheels = TableBuilder(["wheel", "result", Column("size", right=True), "sha256"])
    for report in reports:
        digest = report["sha256"][:_DIGEST_CHARACTERS]
        wheels.add(
            f"{report['name']} {report['version']}", report["status"], show.size(report["size"]), digest
        )
        for item in report["objects"]:
            counts = item["abi_counts"]
            abi = "none seen" if item["abi"] is None else item["abi"]
            objects.add(item["path"], abi, f"{counts['new']}:{counts['old']}", " ".join(item["needed"]))
        for finding in report["findings"]:
            findings.add(finding["severity"], finding["object"], finding["message"])
    parts: list[Part] = [wheels.build(), objects.build()]
    return (*parts, findings.build("Findings")) if findings.rows else tuple(parts)


def _when(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment))


def _origin(fact: Mapping[str, Any]) -> str:
    told = "; ".join(str(fact[key]) for key in ("source", "note") if fact.get(key))
    return f"source: {told or 'none'} (confidence: {fact.get('confidence') or 'unknown'})"
