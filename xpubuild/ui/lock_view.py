"""Locks as text: what is in one, and what differs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xpubuild.ui.parts import Facts, Part, TableBuilder
from xpubuild.ui.terminal import Terminal, one_line

_DIGEST_CHARACTERS = 12


def progress(*, quiet: bool) -> Callable[[str], None]:
    """Return what shows the lines of a fetch, without git's percentages: they are for a live picture."""

    def report(line: str) -> None:
        if not quiet and "%" not in line and not line.startswith(("remote: ", "From ", " * ")):
            Terminal.detect(sys.stderr, os.environ).try_write(f"{one_line(line)}\n")

    return report


def written_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.written-lock/1`` document."""
    state = "written" if document["changed"] else "unchanged"
    facts = (
        ("lock", f"{document['file']} ({state})"),
        ("recipe", document["recipe"]),
        ("digest", document["lock"][:_DIGEST_CHARACTERS]),
        ("machine", document["machine"][:_DIGEST_CHARACTERS]),
        ("repositories", str(document["repositories"])),
        *([("archives", str(document["archives"]))] if document["archives"] else []),
        ("requirements", str(document["pins"])),
    )
    return (Facts(facts), *_open(f"{item['dist']} {item['version']}" for item in document["open"]))


def verified_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return the parts of an ``xpubuild.verify-lock/1`` document."""
    facts = (
        ("recipe", document["recipe"]),
        ("digest", document["lock"][:_DIGEST_CHARACTERS]),
        ("policy", document["policy"]),
        ("result", document["status"]),
    )
    return (Facts(facts), *differences_view(document["differences"]), *_open(document["open"]))


def differences_view(found: Sequence[Mapping[str, Any]], title: str = "Differences") -> tuple[Part, ...]:
    """Return a table of differences; nothing where there are none."""
    table = TableBuilder(["what", "in the lock", "here"])
    for item in found:
        table.add(item["path"], _shown(item["old"]), _shown(item["new"]))
    return (table.build(title),) if table.rows else ()


def _open(names: Any) -> tuple[Part, ...]:
    table = TableBuilder(["wheel", "open"])
    for name in names:
        table.add(name, "no hash is known: any file that the index serves is accepted")
    return (table.build("Without a hash"),) if table.rows else ()


def _shown(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return one_line(", ".join(map(str, value)))
    if isinstance(value, Mapping):
        return one_line(
            ", ".join(f"{name} {_shown(item)}" for name, item in value.items() if item is not None)
        )
    return one_line(str(value))
