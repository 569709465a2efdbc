"""docs/images/architecture.svg: the packages and their imports, as the code has them.

A package stands above all that it imports. An arrow that follows from others is left out; the table of
docs/architecture.md has all of them.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from html import escape
from itertools import pairwise
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent.parent / "xpubuild"
_BOX, _HEIGHT, _DOWN, _MARGIN = 124, 34, 72, 24
#: Width that a box and an arrow which passes a row take in it.
_OF_BOX, _OF_ARROW = 150, 24
_SWEEPS = 24

Graph = Mapping[str, frozenset[str]]
#: A package, or the place where the arrow from one to another passes a row.
Node = str | tuple[str, str, int]

_HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">
<style>
text {{ font: 15px ui-sans-serif, system-ui, sans-serif; text-anchor: middle; fill: #1a2433; }}
rect.box {{ fill: #eef3fa; stroke: #4a6a94; }}
path {{ fill: none; stroke: #7d8ca3; }}
</style>
<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">\
<polygon points="0 0, 8 4, 0 8" fill="#7d8ca3"/></marker></defs>
<rect width="{width}" height="{height}" fill="#ffffff"/>
"""


def imports() -> Graph:
    """Return package -> packages that its files import, those inside functions and for types included."""
    names = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py") if path.parent.name != "ops")
    found: dict[str, set[str]] = {name: set() for name in names}
    for name in names:
        for path in (PACKAGE / name).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, (ast.Import, ast.ImportFrom)):
                    found[name] |= _targets(node)
    return {name: frozenset(targets & found.keys() - {name}) for name, targets in found.items()}


def _targets(node: ast.Import | ast.ImportFrom) -> set[str]:
    if isinstance(node, ast.ImportFrom) and node.module == "xpubuild":
        return {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        modules = [node.module or ""]
    else:
        modules = [alias.name for alias in node.names]
    parts = [module.split(".") for module in modules]
    return {part[1] for part in parts if part[0] == "xpubuild" and len(part) > 1}


def direct(graph: Graph) -> Graph:
    """Return the graph without the arrows that follow from others."""

    @functools.cache
    def below(name: str) -> frozenset[str]:
        return graph[name].union(*(below(other) for other in graph[name]))

    return {
        name: frozenset(
            other for other in targets if not any(other in below(between) for between in targets - {other})
        )
        for name, targets in graph.items()
    }


def rows(graph: Graph) -> list[list[Node]]:
    """Return what stands in each row: packages, those that import nothing last, and arrows between them."""

    @functools.cache
    def depth(name: str) -> int:
        return 1 + max((depth(other) for other in graph[name]), default=-1)

    last = max(map(depth, graph))
    level = {name: last - depth(name) for name in graph}
    found: list[list[Node]] = [[] for _ in range(last + 1)]
    for name in sorted(graph):
        found[level[name]].append(name)
    near: dict[Node, set[Node]] = {}
    for chain in chains(graph, level):
        for number, node in enumerate(chain[1:-1], level[str(chain[0])] + 1):
            found[number].append(node)
        for one, other in pairwise(chain):
            near.setdefault(one, set()).add(other)
            near.setdefault(other, set()).add(one)
    for sweep in range(_SWEEPS):
        # Downwards and upwards in turn: each row is ordered by the one that was ordered before it.
        for row in found if sweep % 2 else reversed(found):
            place = places(found)
            row.sort(key=lambda node: (sum(place[n] for n in near[node]) / len(near[node]), str(node)))
    return found


def chains(graph: Graph, level: Mapping[str, int]) -> Iterator[list[Node]]:
    """Yield each arrow as the nodes that it passes."""
    for name, others in direct(graph).items():
        for other in sorted(others):
            between = range(level[name] + 1, level[other])
            yield [name, *((name, other, number) for number in between), other]


def places(levels: list[list[Node]]) -> dict[Node, float]:
    """Return the middle of each node, rows side by side around 0."""
    found: dict[Node, float] = {}
    for row in levels:
        widths = [_OF_BOX if isinstance(node, str) else _OF_ARROW for node in row]
        left = -sum(widths) / 2
        for node, width in zip(row, widths, strict=True):
            found[node] = left + width / 2
            left += width
    return found


def picture() -> str:
    """Return the picture as SVG."""
    graph = imports()
    levels = rows(graph)
    across = places(levels)
    width = 2 * (max(map(abs, across.values())) + _OF_BOX / 2 + _MARGIN)
    height = (len(levels) - 1) * _DOWN + _HEIGHT + 2 * _MARGIN
    place = {
        node: (width / 2 + across[node], _MARGIN + number * _DOWN)
        for number, row in enumerate(levels)
        for node in row
    }
    label = "Packages of xpubuild; arrows point to what a package imports"
    lines = [_HEAD.format(width=f"{width:g}", height=height, label=label)]
    level = {node: number for number, row in enumerate(levels) for node in row if isinstance(node, str)}
    lines += [_arrow([place[node] for node in chain]) for chain in chains(graph, level)]
    for node, (x, y) in place.items():
        if isinstance(node, str):
            lines.append(
                f'<rect class="box" x="{x - _BOX / 2:g}" y="{y:g}" width="{_BOX}" height="{_HEIGHT}" rx="6"/>'
                f'<text x="{x:g}" y="{y + 22:g}">{escape(node)}</text>\n'
            )
    return "".join([*lines, "</svg>\n"])


def _arrow(points: list[tuple[float, float]]) -> str:
    """Return a line from below the first box to above the last, straight down beside boxes it passes."""
    parts, bend = [f"M{points[0][0]:g} {points[0][1] + _HEIGHT:g}"], (_DOWN - _HEIGHT) / 2
    for (x, y), (u, v) in pairwise(points):
        parts.append(f"C{x:g} {y + _HEIGHT + bend:g} {u:g} {v - bend:g} {u:g} {v:g}")
        if (u, v) != points[-1]:
            parts.append(f"V{v + _HEIGHT:g}")
    return f'<path d="{" ".join(parts)}" marker-end="url(#head)"/>\n'
