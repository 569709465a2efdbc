"""Configuration as text: settings with their sources, errors with their lines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpubuild.ui.parts import Commands, Facts, Part, Sentences, TableBuilder


def config_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.config/1`` document."""
    files = tuple(
        (f"{item['layer']}'s file", item["path"] + ("" if item["exists"] else " (does not exist)"))
        for item in document["files"]
    )
    table = TableBuilder(["setting", "value", "from", "overridden by"])
    for row in document["settings"]:
        table.add(row["key"], _value(row["value"]), row["source"] or row["layer"], row["overridden_by"])
    if not table.rows:
        return (
            Facts(files),
            Sentences(("Nothing is set.",)),
            Commands(("xpubuild config --all",), "To list every setting")
            if any(file["exists"] for file in document["files"] if file["layer"] == "user")
            else Commands(("xpubuild config init",), "To write a file with every setting as a comment"),
        )
    return (Facts(files), table.build())


def _value(value: Any) -> str | None:
    if isinstance(value, list):
        return ", ".join(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def check_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.config-check/1`` document."""
    if not document["files"]:
        return (Sentences(("There is no configuration file.",)),)
    lines = []
    for problem in document["problems"]:
        place = f"{problem['path']}:{problem['line']}" if problem["line"] else problem["path"]
        about = f"{problem['key']}: " if problem["key"] else ""
        value = f" (here: {problem['value']})" if problem["value"] else ""
        lines.append(f"{place}: {about}{problem['what']}{value}; {problem['fix']}")
    wrong = {problem["path"] for problem in document["problems"]}
    lines += [f"{path}: ok" for path in document["files"] if path not in wrong]
    return (Sentences(tuple(lines)),)


def written_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return what is told about a file that was written."""
    return (Facts((("written", document["file"]),)), Commands(("xpubuild config",), "Next, try"))
