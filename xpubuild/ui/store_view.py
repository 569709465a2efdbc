"""Stores of built wheels as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpubuild.ui import format as show
from xpubuild.ui.parts import Column, Facts, Part, Sentences, TableBuilder

_SHORT = 12


def store_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.store/1`` document."""
    parts: list[Part] = []
    for store in document["stores"]:
        table = TableBuilder(
            ["identity", "distribution", "version", Column("size", right=True), "built", "recipe", "used"]
        )
        for row in store["wheels"]:
            table.add(
                row["identity"][:_SHORT],
                row["distribution"],
                row["version"] or row["problem"],
                show.size(row["size_bytes"]) if row["size_bytes"] is not None else "",
                row["created"],
                row["recipe"],
                "by a workspace" if row["used"] else "",
            )
        parts.append(_facts(store))
        if table.rows:
            parts.append(table.build())
    return tuple(parts)


def _facts(store: Mapping[str, Any]) -> Facts:
    trust = f"no: {store['why']}" if store["why"] else "yes"
    items = (
        ("store", store["store"]),
        ("believed", trust),
        ("wheels", str(len(store["wheels"]))),
        ("size", show.size(store["size_bytes"])),
    )
    return Facts(items)


def size_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.store-size/1`` document."""
    table = TableBuilder(
        [
            "store",
            *(Column(name, right=True) for name in ("wheels", "repositories", "files", "sets", "size")),
            "not used because",
        ]
    )
    for row in document["stores"]:
        counts = (row[name] for name in ("wheels", "repositories", "files", "sets"))
        table.add(row["store"], *counts, show.size(row["size_bytes"]), row["why"])
    return (table.build(),)


def check_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.store-check/1`` document."""
    table = TableBuilder(["store", "damaged", "why"])
    for store in document["stores"]:
        for row in store["damaged"]:
            table.add(store["store"], row["path"], row["why"])
    return (table.build(),) if table.rows else (Sentences(("Nothing is damaged.",)),)


def copy_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.store-copy/1`` document."""
    if not document["wheels"]:
        return (Sentences(("There is nothing to copy.",)),)
    table = TableBuilder(["wheel", "store", "kept", "why not"])
    for row in document["wheels"]:
        table.add(row["file"] or row["name"], row["store"], "yes" if row["kept"] else "no", row["why"])
    return (table.build(),)


def collected_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.store-gc/1`` document."""
    if not document["removed"] and not document["kept"]:
        return (Sentences(("There is nothing to remove.",)),)
    table = TableBuilder(["file", Column("size", right=True), "action", "why"])
    for row in document["removed"]:
        word = "remove" if document["dry_run"] else "removed"
        table.add(row["path"], show.size(row["size_bytes"]), word, row["why"])
    for told in document["kept"]:
        table.add(told, "", "kept")
    return (table.build(),)
