"""docs/reference/failure-families.md: the checks that detect each family of failures, and their tests."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from docgen import markdown as md
from xpubuild.doctor.families import families
from xpubuild.doctor.registry import shipped

_TESTS = Path(__file__).resolve().parent.parent.parent / "tests"
_ABOUT = """
The families are those of [explain](explain.md): they group real failures of builds and runs by their common
cause. `xpubuild doctor` has checks for each family that can be detected on a host before a build; what they
cannot detect is listed with the reason. The tests in the tables are those that refer to the check: a
simulated host, or a test function.
"""


def tests_of() -> dict[str, list[str]]:
    """Return check id -> the tests that name it or its class, as FILE::NAME below tests/."""
    names = {name: check.id for check in shipped() for name in (check.id, check.__name__)}
    found: dict[str, list[str]] = {}
    for path in sorted([*_TESTS.glob("*/test_doctor_*.py"), *_TESTS.glob("support/*_hosts.py")]):
        for test, text in _named(ast.parse(path.read_text("utf-8"))):
            place = f"{path.relative_to(_TESTS).as_posix()}::{test}"
            if text in names and place not in found.setdefault(names[text], []):
                found[names[text]].append(place)
    return found


def _named(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield (test or host, word) for every text and name in test functions and in rows of hosts in a list."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield from ((node.name, word) for word in _words(node))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for row in ast.walk(node.value):
                name = _row_name(row)
                yield from ((name, word) for word in _words(row) if name)


def _words(tree: ast.AST) -> Iterator[str]:
    for item in ast.walk(tree):
        if isinstance(item, ast.Constant) and isinstance(item.value, str):
            yield item.value
        elif isinstance(item, ast.Attribute):
            yield item.attr
        elif isinstance(item, ast.Name):
            yield item.id


def _row_name(row: ast.AST) -> str:
    """Return the name of a host: the function of a pair, or the name= or first text of a call."""
    if isinstance(row, ast.Tuple) and row.elts and isinstance(row.elts[0], ast.Name):
        name = row.elts[0].id
        return name if name.islower() else ""
    if not isinstance(row, ast.Call) or len(row.args) + len(row.keywords) < len(("name", "expected")):
        return ""
    named = [keyword.value for keyword in row.keywords if keyword.arg == "name"]
    first = next(iter([*named, *row.args]), None)
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""


def page() -> str:
    """Return the page."""
    tests = tests_of()
    checks = sorted(shipped(), key=lambda check: check.id)
    text = [md.head("Failure families", "xpubuild/doctor/families.yaml and the checks"), _ABOUT]
    for name, family in families().items():
        text.append(f"\n## {name}\n\n{family.about[0].upper()}{family.about[1:]}.\n")
        rows = [
            (
                f"[{md.code(check.id)}](../checks/{check.id}.md)",
                check.title,
                ", ".join(md.code(place) for place in tests.get(check.id, [])),
            )
            for check in checks
            if name in check.families
        ]
        if rows:
            text.append("\n" + md.table(("check", "title", "tests"), rows))
        if family.beyond:
            text.append("\nNot detected:\n\n")
            text.extend(f"* {item.what}: {item.why}.\n" for item in family.beyond)
    return "".join(text)
