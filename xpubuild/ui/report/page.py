"""Makes the page of an ``xpubuild.report/1`` document.

jinja2 escapes every value that the template is given, so that nothing in a log or a name becomes markup; the
page's own policy forbids scripts and everything that would be loaded.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from xpubuild.engine.unprintable import without_unprintable
from xpubuild.ui import wording as show
from xpubuild.ui.parts import Document
from xpubuild.ui.report.pictures import build_figures, operator_table, slowest_edges, step_rows
from xpubuild.ui.views import share, why

#: Word of a status -> how it is drawn, and a sign: not all readers see colours.
_LOOKS = {
    "good": ("✓", ("done", "complete", "pass", "passed", "ok")),
    "bad": ("✗", ("failed", "fail", "crash", "crashed", "timeout", "timed out", "error")),
    "some": ("!", ("interrupted", "partial", "cancelled", "known failure", "warning")),
    "now": ("…", ("running",)),
    "none": ("-", ("skip", "skipped", "to do", "not run")),
}
_MOST_NAMED = 12
_HERE = Path(__file__).resolve().parent


def page(document: Document) -> str:
    """Return the page, as HTML."""
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, finalize=_visible,
    )  # fmt: skip
    environment.filters |= {
        "look": look, "sign": lambda status: _LOOKS[look(status)][0], "figures": figures,
        "moment": lambda seconds: "" if seconds is None else show.when(seconds, "%Y-%m-%d %H:%M:%S %z"),
        "took": lambda seconds: "" if seconds is None else show.duration(seconds), "plural": show.plural,
        "share": share, "why": why, "memory": show.memory, "size": show.size, "shell": shlex.join,
    }  # fmt: skip
    return environment.get_template("page.html").render(
        report=document, style=(_HERE / "page.css").read_text("utf-8"), step_rows=step_rows(document),
        figures_of_builds=list(build_figures(document)), slowest=slowest_edges(document),
        operators=operator_table(document["operators"]) if document["operators"] else None,
    )  # fmt: skip


def _visible(value: Any) -> Any:
    """Return a text without characters that turn or hide others, and without halves of characters."""
    if type(value) is not str:
        return value
    return without_unprintable(value).encode("utf-8", "replace").decode()


def look(status: str) -> str:
    """Return the class of a status: good, bad, some, now or none."""
    return next((name for name, (_, words) in _LOOKS.items() if status in words), "none")


def figures(evidence: Document) -> list[tuple[str, str]]:
    """Return (name, value) of what a proof found, without what is too long for a line."""
    return [(name.replace("_", " "), _said(value)) for name, value in evidence.items() if name != "proof"]


def _said(value: Any) -> str:
    match value:
        case {"name": name, "objects": [*objects], "findings": [*findings]}:  # an audit
            abi = "no C++ ABI" if value.get("abi") is None else f"C++11 ABI {value['abi']}"
            counts = f"{show.plural(len(objects), 'shared object')}, {show.plural(len(findings), 'finding')}"
            return f"{name} {value.get('version', '')}: {abi}, {counts}"
        case Mapping():
            # torch 2.6.0, numpy 2.1: of each entry its version, or what it is where that is short.
            inner = (
                item.get("version", "") if isinstance(item, Mapping) else item for item in value.values()
            )
            return _listed(
                [f"{name} {_said(item)}".rstrip() for name, item in zip(value, inner, strict=True)]
            )
        case [*items]:
            nested = any(isinstance(item, (Mapping, list)) for item in items)
            return f"{len(items)}" if nested else _listed([str(item) for item in items])
        case bool():
            return "yes" if value else "no"
    return "none" if value is None else str(value)


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _MOST_NAMED} more" if len(items) > _MOST_NAMED else ""
    return (", ".join(items[:_MOST_NAMED]) + more) or "none"
