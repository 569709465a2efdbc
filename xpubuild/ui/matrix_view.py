"""The compatibility matrix as a person reads it: four small tables instead of one that fits no terminal.

A question about a host is answered instead of them: see ``answer_view``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from xpubuild.ui.answer_view import answer_view
from xpubuild.ui.parts import Facts, Part, Sentences, Table, TableBuilder

Row = Mapping[str, Any]
_NONE = "any"
_UNKNOWN = "unknown"


def matrix_view(document: Mapping[str, Any]) -> tuple[Part, ...]:
    """Return an ``xpubuild.matrix/1`` document: the answer where a question was asked, else the tables."""
    rows = document["releases"]
    if document["situation"] is not None:
        return answer_view(document["situation"], rows)
    lost = lacks(rows)
    return (built_with(rows), goes_with(rows), runs_on(rows), *([lost] if lost.rows else []))


def built_with(rows: Sequence[Row]) -> Table:
    """Return what each release is built with."""
    table = TableBuilder(["release", "oneAPI", "Python", "GCC", "CMake", "C++", "ABI"])
    for row in rows:
        table.add(
            row["release"],
            _value(row, "oneapi"),
            _value(row, "python"),
            _value(row, "gcc"),
            _value(row, "cmake"),
            _value(row, "cxx_standard"),
            _abi(row["cxx11_abi"]),
        )
    return table.build("What a release is built with")


def goes_with(rows: Sequence[Row]) -> Table:
    """Return the triton, vision and audio that go with each release."""
    table = TableBuilder(["release", "triton for XPU", "vision", "audio"])
    for row in rows:
        parts = row["components"]
        triton = _component(parts.get("triton"))
        if parts.get("triton") and triton not in ("-", _UNKNOWN):
            triton = f"{parts['triton']['dist']} {triton}"
        table.add(row["release"], triton, _component(parts.get("vision")), _component(parts.get("audio")))
    return table.build("What goes with it")


def runs_on(rows: Sequence[Row]) -> Table:
    """Return where the releases run, runs of equal ones together."""
    table = TableBuilder(["releases", "GPUs", "drivers", "AOT targets by default"])

    def cells(row: Row) -> tuple[str, ...]:
        return (_list(row, "gpus"), _list(row, "drivers"), _list(row, "arch"))

    for names, values in _together(rows, cells):
        table.add(names, *values)
    return table.build("Where it runs")


def lacks(rows: Sequence[Row]) -> Table:
    """Return what is lost or known not to work under which conditions."""
    table = TableBuilder(["when", "what", "releases"])
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for item in row["loses"]:
            found.setdefault((item["when"] or "always", f"lacks {item['feature']}"), []).append(
                row["release"]
            )
        for item in row["refuses"]:
            found.setdefault((item["when"] or "always", f"does not work: {item['why']}"), []).append(
                row["release"]
            )
    every = [row["release"] for row in rows]
    for (when, what), names in found.items():
        table.add(when, what, _ranges(names, every))
    return table.build("What it lacks or refuses")


def _value(row: Row, key: str) -> str:
    return _text(row, key, f"needs.{key}")


def _text(row: Row, key: str, path: str) -> str:
    value = row[key]
    if value is None or value == []:
        return _UNKNOWN if path in row["unknown"] else _NONE
    return ", ".join(value) if isinstance(value, list) else str(value)


def _list(row: Row, key: str) -> str:
    if key == "arch":
        return ", ".join(row["arch"]) or _UNKNOWN
    return _text(row, key, f"needs.{key}")


def _abi(rule: Mapping[str, Any]) -> str:
    return f"{rule['default']} or {1 - rule['default']}" if rule["honoured"] else str(rule["default"])


def _component(component: Mapping[str, Any] | None) -> str:
    if component is None:
        return "-"
    return component["version"] or _UNKNOWN


def _together(
    rows: Sequence[Row], cells: Callable[[Row], tuple[str, ...]]
) -> Iterable[tuple[str, tuple[str, ...]]]:
    """Yield (releases, cells) with neighbours that have equal cells in one."""
    group: list[str] = []
    last: tuple[str, ...] = ()
    for row in rows:
        now = cells(row)
        if group and now != last:
            yield _span(group), last
            group = []
        group.append(row["release"])
        last = now
    if group:
        yield _span(group), last


def _ranges(names: Sequence[str], every: Sequence[str]) -> str:
    spans: list[list[str]] = []
    for name in every:
        if name not in names:
            spans.append([])
        elif spans:
            spans[-1].append(name)
        else:
            spans.append([name])
    return ", ".join(_span(span) for span in spans if span)


def _span(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[-1]} to {names[0]}"


def markdown(document: Mapping[str, Any]) -> str:
    """Return the same as Markdown."""
    parts = []
    for part in matrix_view(document):
        title = f"## {part.title}\n\n" if part.title else ""
        if isinstance(part, Table):
            parts.append(title + _markdown_table([column.name for column in part.columns], part.rows))
        elif isinstance(part, Facts):
            parts.append(title + _markdown_table(["", ""], part.items))
        elif isinstance(part, Sentences):
            parts.append(title + "".join(f"{line}\n" for line in part.lines))
    return "\n".join(parts)


def _markdown_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
