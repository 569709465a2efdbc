"""The table of what a compile cache hit, of status and of the result of an install."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from xpubuild.ui.parts import Column, Table, TableBuilder


def cache_table(steps: Iterable[Mapping[str, Any]]) -> Table:
    """Return one row per step and family of the ``compile_cache`` of a document."""
    numbers = (Column(name, right=True) for name in ("calls", "hits", "missed", "not cached"))
    table = TableBuilder(["step", "compile cache", "family", *numbers, "why not"])
    for step in steps:
        for item in step["families"]:
            table.add(
                step["step"],
                step["program"],
                item["family"],
                item["calls"],
                f"{item['hits']} ({share(item)})",
                item["misses"],
                item["not_cached"],
                why(item),
            )
    return table.build("Compile cache")


def share(family: Mapping[str, Any]) -> str:
    """Return the hits of all calls in per cent; never 100 where one is missing."""
    return f"{100 * family['hits'] // family['calls']} %" if family["calls"] else "-"


def why(family: Mapping[str, Any]) -> str:
    """Return the reasons, most frequent first, and the part of the hits that another machine made."""
    told = [f"{count} {reason}" for reason, count in family["reasons"].items()]
    told += [f"{family['remote_hits']} hits from the remote storage"] if family["remote_hits"] else []
    return "; ".join(told)
