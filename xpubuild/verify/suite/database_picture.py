"""The table of operators and types as a picture: an HTML page that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from .database import TYPES
from .database_table import STATES

#: State -> colour, and a sign, since colours alone do not tell all readers.
_LOOK = {
    "passed": ("#2e8b57", "✓"),
    "failed": ("#c62828", "✗"),
    "known failure": ("#e08a00", "k"),
    "skipped": ("#9aa7b0", "s"),
    "crashed": ("#6a1b9a", "!"),
    "timed out": ("#1565c0", "t"),
    "not run": ("#ffffff", ""),
}
_SIDE, _WIDE, _LEFT, _TOP = 14, 64, 330, 30


def page(document: Mapping[str, Any]) -> str:
    """Return the page of an ``xpubuild.verify-operators/1`` document."""
    title = f"Operators on {document['device']}, torch {document['torch']}"
    total = document["total"]
    legend = "".join(
        f'<li><svg width="14" height="14"><rect width="14" height="14" fill="{_LOOK[state][0]}"'
        f' stroke="#888"/></svg> {_LOOK[state][1]} {state}: {document["states"][state]} of {total}</li>'
        for state in STATES
    )
    lists = "".join(
        f"<h2>{html.escape(name)}</h2><p>{html.escape(', '.join(document[key]))}</p>"
        for key, name in (
            ("regressions", "Passed in the accepted run, and no longer"),
            ("unexpected", "Known failures that pass"),
            ("accepted", "Failures that were accepted"),
        )
        if document[key]
    )
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width">'
        "<style>body{font:14px sans-serif;margin:1em;overflow-x:auto}ul{list-style:none;padding:0}"
        "text{font:11px monospace}</style>"
        f"<h1>{html.escape(title)}</h1><p>Driver: {html.escape(document['driver'])}."
        f" {document['operators']} operators, {total} pairs of operator and type.</p>"
        f"<ul>{legend}</ul>{lists}{_drawing(document)}</html>\n"
    )


def _drawing(document: Mapping[str, Any]) -> str:
    """Return the table as SVG; the reason of a cell is its title."""
    rows: dict[str, dict[str, Mapping[str, Any]]] = {}
    for cell in document["cells"]:
        rows.setdefault(cell["operator"], {})[cell["type"]] = cell
    kinds = [kind for kind in TYPES if any(kind in row for row in rows.values())]
    parts = [
        f'<text x="{_LEFT + column * _WIDE + 2}" y="{_TOP - 8}">{kind}</text>'
        for column, kind in enumerate(kinds)
    ]
    for number, (name, row) in enumerate(sorted(rows.items())):
        top = _TOP + number * _SIDE
        parts.append(
            f'<text x="{_LEFT - 6}" y="{top + 11}" text-anchor="end">{html.escape(name[-46:])}</text>'
        )
        for column, kind in enumerate(kinds):
            if kind in row:
                parts.append(_cell(_LEFT + column * _WIDE, top, row[kind]))
    width, height = _LEFT + len(kinds) * _WIDE + 10, _TOP + len(rows) * _SIDE + 10
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img"'
        f' aria-label="operators by type">{"".join(parts)}</svg>'
    )


def _cell(left: int, top: int, cell: Mapping[str, Any]) -> str:
    colour, sign = _LOOK[cell["state"]]
    dark = "#000" if cell["state"] in ("not run", "skipped", "known failure") else "#fff"
    said = f"{cell['operator']} {cell['type']}: {cell['state']}"
    said += f": {cell['detail']}" if cell["detail"] and cell["state"] != "passed" else ""
    return (
        f'<g><title>{html.escape(said)}</title><rect x="{left}" y="{top}" width="{_WIDE - 2}"'
        f' height="{_SIDE - 2}" fill="{colour}" stroke="#ccc"/>'
        f'<text x="{left + _WIDE // 2 - 4}" y="{top + 10}" fill="{dark}">{sign}</text></g>'
    )
