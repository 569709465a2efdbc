"""The result of ``check`` as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpubuild.ui import format as show
from xpubuild.ui.parts import Facts, Part, Sentences, TableBuilder

_MOST = 20


def check_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.check/1`` document."""
    checked = document["checked"]
    parts: list[Part] = [
        Facts(
            (
                ("workspace", document["workspace"]),
                ("result", document["status"]),
                ("packages", f"{checked['packages']} with {checked['files']} files"),
                ("wheels", str(checked["wheels"])),
                ("checkouts", str(checked["sources"])),
                ("hashed", show.size(checked["bytes"])),
            )
        )
    ]
    for key, title in (("damaged", "Damaged"), ("repaired", "Repaired")):
        table = TableBuilder(["what", "name", "why", "path"])
        for item in document[key]:
            table.add(item["kind"], item["name"], item["why"], item["path"])
        if table.rows:
            parts.append(table.build(title))
    for key, title in (
        ("unowned", "Files that no installed package and no step made"),
        ("edited", "Sources with local changes"),
    ):
        paths = document[key]
        more = (f"and {len(paths) - _MOST} more",) if len(paths) > _MOST else ()
        if paths:
            parts.append(Sentences((*paths[:_MOST], *more), title))
    return tuple(parts)
