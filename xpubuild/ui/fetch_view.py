"""How an ``xpubuild.fetch/1`` document looks to a person."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpubuild.ui import format as show
from xpubuild.ui.parts import Column, Facts, Part, TableBuilder

_DIGITS = 12


def fetch_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of the document: what is new, what is missing, and how much there is."""
    summary = document["summary"]
    facts = [("mirror", document["mirror"])]
    if document["recipe"]:
        facts.append(("recipe", f"{document['recipe']}, Python {', '.join(document['pythons'])}"))
    if document["action"] == "fetch":
        facts.append(("new", _amount(summary, "new_")))
        if document["damaged"]:
            facts.append(("repaired", ", ".join(item["path"] for item in document["damaged"])))
    if document["action"] == "dry-run":
        facts.append(("missing", _expected(document)))
    # Of a dry run, what is in the mirror already.
    facts.append(("present" if document["action"] == "dry-run" else "total", _amount(summary, "")))
    if document["action"] == "check":
        facts.append(("result", "no damage found"))
    parts: list[Part] = [Facts(tuple(facts))]
    if document["missing"]:
        parts.append(_missing(document).build("Missing"))
    new = [item for item in document["files"] if item["new"]]
    if new and document["action"] == "fetch":
        table = TableBuilder(["file", Column("size", right=True), "sha256"])
        for item in new:
            table.add(item["name"], show.size(item["size"]), item["sha256"][:_DIGITS])
        parts.append(table.build("New"))
    return tuple(parts)


def _expected(document: Mapping[str, Any]) -> str:
    """Say how much would come; git and package indexes tell no size beforehand."""
    files = [item for item in document["missing"] if item["kind"] != "git"]
    count = len(document["missing"]) - len(files)
    known, unknown = document["summary"]["missing_bytes"], any(item["size"] is None for item in files)
    size = (
        f"{'at least ' if unknown else ''}{show.size(known)}" if known or not unknown else "of unknown size"
    )
    words = [f"{show.plural(len(files), 'file')}{' ' if size.startswith('of') else ', '}{size}"]
    words += [f"{count} repositories of unknown size" if count != 1 else "1 repository of unknown size"]
    found = [word for word, there in zip(words, (files, count), strict=True) if there]
    return " and ".join(found) or "nothing"


def _amount(summary: Mapping[str, Any], prefix: str) -> str:
    repositories, files = summary[f"{prefix}repositories"], summary[f"{prefix}files"]
    if not repositories and not files:
        return "nothing"
    many = f"{repositories} repositories" if repositories != 1 else "1 repository"
    return f"{many}, {show.plural(files, 'file')}, {show.size(summary[f'{prefix}bytes'])}"


def _missing(document: Mapping[str, Any]) -> TableBuilder:
    table = TableBuilder(["kind", "what", Column("size", right=True), "for"])
    for item in document["missing"]:
        at = (item["commit"] or item["ref"] or "")[:_DIGITS]
        what = f"{item['name']} {at}".rstrip() if item["kind"] == "git" else item["name"]
        size = "unknown" if item["size"] is None else show.size(item["size"])
        table.add(item["kind"], what, size, item["component"])
    return table
