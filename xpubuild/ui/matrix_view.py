"""The compatibility matrix as text: four small tables instead of one that fits no terminal.

For one host, ``answer_view`` shows the verdict instead.
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
    shown = (built_with(rows), toolkits(rows), goes_with(rows), runs_on(rows))
    return (*shown, *([lost] if lost.rows else []))


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
    return table.build("Build requirements")


def toolkits(rows: Sequence[Row]) -> Table:
    """Return which oneAPI upstream builds each release with, and what else builds it."""
    table = TableBuilder(["release", "upstream's pairing", "tolerated", "only with patches"])
    for row in rows:
        cells = (
            ", ".join(item["oneapi"] for item in row["toolkits"] if item["standing"] == kind)
            for kind in ("pairing", "tolerated", "patched")
        )
        pairing, *others = cells
        table.add(row["release"], pairing or _UNKNOWN, *(cell or "-" for cell in others))
    return table.build("Builds with this oneAPI")


def goes_with(rows: Sequence[Row]) -> Table:
    """Return the versions of the components of each release, with the distribution where it differs."""
    dists: dict[str, set[str]] = {}
    for row in rows:
        for name, component in row["components"].items():
            dists.setdefault(name, set()).add(component["dist"])
    table = TableBuilder(["release", *dists])
    for row in rows:
        parts = row["components"]
        cells = (_component(parts.get(name), named=len(known) > 1) for name, known in dists.items())
        table.add(row["release"], *cells)
    return table.build("Matching versions")


def runs_on(rows: Sequence[Row]) -> Table:
    """Return where the releases run, runs of equal ones together."""
    table = TableBuilder(["releases", "GPUs", "drivers", "default AOT targets"])

    def cells(row: Row) -> tuple[str, ...]:
        return (_list(row, "gpus"), _list(row, "drivers"), _list(row, "arch"))

    for names, values in _together(rows, cells):
        table.add(names, *values)
    return table.build("Runs on")


def lacks(rows: Sequence[Row]) -> Table:
    """Return what is lost or known not to work under which conditions."""
    table = TableBuilder(["when", "what", "releases"])
    found: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        for item in row["loses"]:
            found.setdefault((item["when"] or "always", f"without {item['feature']}"), []).append(
                row["release"]
            )
        for item in row["refuses"]:
            found.setdefault((item["when"] or "always", f"does not work: {item['why']}"), []).append(
                row["release"]
            )
    every = [row["release"] for row in rows]
    for (when, what), names in found.items():
        table.add(when, what, _ranges(names, every))
    return table.build("Limitations")


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


def _component(component: Mapping[str, Any] | None, *, named: bool) -> str:
    if component is None:
        return "-"
    version: str = component["version"] or _UNKNOWN
    return f"{component['dist']} {version}" if named and component["version"] else version


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
