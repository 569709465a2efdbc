"""All workspaces and caches as text."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from xpubuild.ui import format as show
from xpubuild.ui.parts import Column, Facts, Part, Sentences, TableBuilder


def overview_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.overview/1`` document."""
    table = TableBuilder(
        ["workspace", "recipe", "torch", "state", Column("size", right=True), "last used", "last verify"]
    )
    for row in document["workspaces"]:
        table.add(
            row["name"],
            row["recipe"],
            row["torch"],
            row["state"],
            show.size(row["size_bytes"]),
            _age(row["last_used"]),
            f"{row['verify']}, {_age(row['verified'])}" if row["verify"] else "-",
        )
    caches = TableBuilder(["cache", Column("size", right=True), "folder"])
    for cache in document["caches"]:
        caches.add(cache["name"], show.size(cache["size_bytes"]), cache["path"])
    wheels = sum(row["wheels_bytes"] for row in document["workspaces"])
    facts = Facts((("folder", document["folder"]), ("wheels that were built", show.size(wheels))))
    if not table.rows:
        return (Facts(facts.items[:1]), Sentences(("There is no workspace.",)), caches.build("Caches"))
    return (facts, table.build("Workspaces"), *([caches.build("Caches")] if caches.rows else []))


def _age(moment: float | None) -> str:
    if moment is None:
        return "-"
    days = int((time.time() - moment) // 86_400)
    return "today" if days < 1 else "1 day ago" if days == 1 else f"{days} days ago"


def many_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.clean-many/1`` document."""
    if not document["removed"] and not document["kept"]:
        return (Sentences(("There is nothing to remove.",)),)
    table = TableBuilder(["folder", Column("size", right=True), "action"])
    for row in document["removed"]:
        word = "remove" if document["dry_run"] else "removed"
        table.add(row["path"], show.size(row["size_bytes"]), word)
    for told in document["kept"]:
        table.add(told, "", "keep" if document["dry_run"] else "kept")
    return (table.build(),)
