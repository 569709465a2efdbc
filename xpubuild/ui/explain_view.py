"""An explanation as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from xpubuild.ui.parts import Commands, Facts, Part, TableBuilder

_HIGH, _MEDIUM = 0.8, 0.5


def explain_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.explain/1`` document."""
    return tuple(_parts(document))


def _parts(document: Mapping[str, Any]) -> Iterator[Part]:
    first, findings = document["first_error"], document["findings"]
    if first is None and not findings:
        yield Facts((("result", _nothing_found(document["lines"])),))
        return
    if first is not None:
        yield Facts(_first_error(first), "First error")
    for number, finding in enumerate(findings, 1):
        yield Facts(_finding(finding), f"Finding {number} of {len(findings)}: {finding['title']}")
        yield Commands((finding["next_command"],), "Next")
    if not findings:
        yield Commands(
            tuple(line for line in first["context"] if line.strip()), "The cause is not known. Context"
        )
        yield Commands(tuple(document["search_terms"]), "Search for")


def _nothing_found(lines: int) -> str:
    if not lines:
        return "the log is empty; pass the log of the failed build"
    return f"no error and no known failure in {lines} {'line' if lines == 1 else 'lines'}"


def _first_error(first: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = [("line", str(first["line"])), ("source", first["kind"]), ("text", first["text"])]
    if first["command"]:
        rows.append(("command", first["command"]))
    return tuple(rows)


def _finding(finding: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    rows = [
        ("signature", finding["id"]),
        ("confidence", f"{_word(finding['confidence'])} ({finding['confidence']:.2f})"),
        ("line", f"{finding['line']}: {finding['excerpt']}"),
        ("cause", finding["cause"]),
        ("fix", finding["fix"]),
        ("releases", finding["releases"]),
        ("references", " ".join(finding["sources"])),
    ]
    return tuple(row for row in rows if row[1])


def _word(confidence: float) -> str:
    return "high" if confidence >= _HIGH else "medium" if confidence >= _MEDIUM else "low"


def signatures_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the table of all signatures."""
    table = TableBuilder(["family", "signature", "problem"])
    for entry in document["signatures"]:
        table.add(entry["family"], entry["id"], entry["title"])
    return (table.build(),)
