"""Reads from a source tree which versions of Python it supports, without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet

from xpubuild.frozen import frozen
from xpubuild.recipe.tree_text import read_text

if sys.version_info >= (3, 11):
    import tomllib

_DEEPEST = 20


@frozen
class PythonSaid:
    """What a tree says of its Pythons: the requirement as ``text``, or why there is none.

    ``problem`` is what no tool could use, ``note`` what cannot be told here. All are None where neither file
    says anything.
    """

    file: str = ""
    text: str | None = None
    problem: str | None = None
    note: str | None = None


def requires_python(tree: Path, folder: str = ".") -> PythonSaid:
    """Return the tree's own Python requirement.

    ``pyproject.toml`` counts before ``setup.py``, as it does for pip: one that is broken is not passed over.
    """
    for name, read in (("pyproject.toml", _of_pyproject), ("setup.py", _of_setup)):
        file = str(PurePosixPath(folder) / name)
        found = read_text(tree, file)
        if found.problem is not None:
            return PythonSaid(file, problem=f"it cannot be read: {found.problem}")
        said = read(file, found.text) if found.text is not None else None
        if said is not None:
            return said if said.text is None else _specifier(file, said.text)
    return PythonSaid()


def _specifier(file: str, text: str) -> PythonSaid:
    try:
        return PythonSaid(file, str(SpecifierSet(text)))
    except InvalidSpecifier:
        return PythonSaid(file, problem=f"it requires Python '{text}', which is not a version specifier")


def _of_pyproject(file: str, text: str) -> PythonSaid | None:
    if sys.version_info >= (3, 11):
        try:
            return _of_project(file, tomllib.loads(text).get("project", {}))
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            return PythonSaid(file, problem=f"it is not valid TOML: {error}")
    said = "requires-python" in text
    return PythonSaid(file, note="it can only be read with Python 3.11 and later") if said else None


def _of_project(file: str, project: object) -> PythonSaid | None:
    if not isinstance(project, dict):
        return PythonSaid(file, problem="its 'project' is not a table")
    found = project.get("requires-python")
    if found is None or isinstance(found, str):
        return PythonSaid(file, found) if found is not None else None
    return PythonSaid(file, problem=f"its requires-python is {found!r}, which is not a version specifier")


def _of_setup(file: str, text: str) -> PythonSaid | None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # It may be right for another Python than this one.
        return PythonSaid(file, note=f"it cannot be parsed: {error}")
    names = dict(_constants(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _is_setup(node.func):
            for keyword in node.keywords:
                if keyword.arg == "python_requires":
                    found = _value(keyword.value, names, 0)
                    return PythonSaid(file, found) if isinstance(found, str) else None
    return None


def _is_setup(function: ast.expr) -> bool:
    return (isinstance(function, ast.Name) and function.id == "setup") or (
        isinstance(function, ast.Attribute) and function.attr == "setup"
    )


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that the module binds once; what is bound again could be anything."""
    bound: dict[str, list[ast.expr]] = {}
    for node in tree.body:
        targets: list[ast.expr] = node.targets if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in targets:
                if isinstance(target, ast.Name):
                    bound.setdefault(target.id, []).append(node.value)
    yield from ((name, values[0]) for name, values in bound.items() if len(values) == 1)


def _value(node: ast.expr, names: dict[str, ast.expr], depth: int) -> Any:
    """Return the value of the few expressions that versions are written with; None for all others."""
    found: Any = None
    if depth > _DEEPEST:
        return None
    if isinstance(node, ast.Constant):
        found = node.value
    elif isinstance(node, ast.Name) and node.id in names:
        found = _value(names[node.id], names, depth + 1)
    elif isinstance(node, (ast.Tuple, ast.List)):
        found = [_value(item, names, depth + 1) for item in node.elts]
    elif isinstance(node, ast.JoinedStr):
        found = _joined([_value(part, names, depth + 1) for part in node.values], "")
    elif isinstance(node, ast.FormattedValue) and node.format_spec is None:
        found = _value(node.value, names, depth + 1)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        found = _joined([_value(side, names, depth + 1) for side in (node.left, node.right)], "")
    elif isinstance(node, ast.Call):
        found = _call(node, names, depth + 1)
    return found


def _call(node: ast.Call, names: dict[str, ast.expr], depth: int) -> Any:
    """Return the value of ``".".join(parts)`` and of ``map(str, parts)``."""
    if node.keywords:
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "join" and len(node.args) == 1:
        separator = _value(node.func.value, names, depth)
        parts = _value(node.args[0], names, depth)
        joins = isinstance(separator, str) and isinstance(parts, list)
        return _joined(parts, separator) if joins else None
    if isinstance(node.func, ast.Name) and node.func.id == "map" and len(node.args) == 2:  # noqa: PLR2004
        function, parts = node.args
        return (
            _value(parts, names, depth) if isinstance(function, ast.Name) and function.id == "str" else None
        )
    return None


def _joined(parts: list[Any], separator: str) -> str | None:
    if not all(isinstance(part, (str, int)) for part in parts):
        return None
    return separator.join(str(part) for part in parts)
