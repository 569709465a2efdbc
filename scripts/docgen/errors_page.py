"""docs/reference/errors.md: every message that an error may have, from the syntax trees of the program."""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import xpubuild
from docgen import markdown as md
from xpubuild.errors import EXIT_CODES

_ROOT = Path(xpubuild.__file__).parent
#: Sources of the embedded extension are data to xpubuild.
_DATA = _ROOT / "ops" / "project"
_CODES = {kind.__name__: number for number, kind in EXIT_CODES.items() if number != 1}
_MOST = 6
_ABOUT = """
Every message that xpubuild ends with, by exit code: what happened, why, what to do, and the commands to run.
`{name}` stands for what differs from case to case. Where a part has several forms, "or" separates them.
To find the message that you have, search for a few of its words that are no names, paths or versions.
"""

Texts = tuple[str, ...]


class _Reader(ast.NodeVisitor):
    """The texts that an expression may have, in one function of one module.

    ``visit`` returns each form; what only a run knows is the name of it in braces.
    """

    def __init__(self, names: Mapping[str, list[ast.expr]]) -> None:
        self._names = names

    def generic_visit(self, node: ast.AST) -> Texts:
        return (f"{{{_last(node)}}}",)

    def visit_Constant(self, node: ast.Constant) -> Texts:
        return (str(node.value),)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> Texts:
        return self._joined(node.values)

    def visit_FormattedValue(self, node: ast.FormattedValue) -> Texts:
        return self.forms(node.value)

    def visit_BinOp(self, node: ast.BinOp) -> Texts:
        return self._joined([node.left, node.right])

    def visit_IfExp(self, node: ast.IfExp) -> Texts:
        return self.forms(node.body, node.orelse)

    def visit_BoolOp(self, node: ast.BoolOp) -> Texts:
        return self.forms(*node.values)

    def visit_Name(self, node: ast.Name) -> Texts:
        return self._inside(node).forms(*self._names.get(node.id, ())) or self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> Texts:
        name, first = _last(node.func), (node.args or [None])[0]
        if name == "join" and isinstance(first, (ast.List, ast.Tuple)):
            return self._joined([part for item in first.elts for part in (ast.Constant(" "), item)][1:])
        if name in ("quote", "str", "strip") and first is not None:
            return self.forms(first)
        return self.generic_visit(first if name == "join" and first is not None else node)

    def forms(self, *parts: ast.expr) -> Texts:
        """Return the texts of several expressions."""
        return _distinct(text for part in parts for text in self.visit(part))

    def commands(self, node: ast.expr) -> list[Texts]:
        """Return each command of a tuple or list of commands."""
        if isinstance(node, (ast.Tuple, ast.List)):
            return [self.forms(item) for item in node.elts]
        if isinstance(node, ast.IfExp):
            return [*self.commands(node.body), *self.commands(node.orelse)]
        if isinstance(node, ast.Name) and node.id in self._names:
            inside = self._inside(node)
            return [texts for value in self._names[node.id] for texts in inside.commands(value)]
        return [self.generic_visit(node)]

    def _inside(self, node: ast.Name) -> _Reader:
        """Return the reader of what a name stands for; it may be made from what the name stood for before."""
        return _Reader({name: values for name, values in self._names.items() if name != node.id})

    def _joined(self, parts: Iterable[ast.expr]) -> Texts:
        forms = [self.visit(part) for part in parts]
        return _distinct("".join(chosen) for chosen in itertools.islice(itertools.product(*forms), _MOST))


def _distinct(texts: Iterable[str]) -> Texts:
    return tuple(dict.fromkeys(texts))[:_MOST]


def _last(node: ast.AST | None) -> str:
    """Return the last name of an expression, as a word for what it is."""
    if isinstance(node, ast.Name):
        return node.id.strip("_")
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_")
    if isinstance(node, (ast.Call, ast.Subscript, ast.Starred, ast.Await)):
        inner = node.func if isinstance(node, ast.Call) else node.value
        return _last(inner)
    return "…"


def _assigned(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return what is assigned to each name in a function or at the top of a module."""
    names: dict[str, list[ast.expr]] = defaultdict(list)
    for node in _own(tree):
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name):
                    names[target.id].append(node.value)
    return dict(names)


def _own(tree: ast.AST) -> Iterator[ast.AST]:
    """Walk a function or module without the functions inside."""
    todo = [*ast.iter_child_nodes(tree)][::-1]
    while todo:
        child = todo.pop()
        yield child
        if not isinstance(child, (ast.FunctionDef, ast.ClassDef)):
            todo += [*ast.iter_child_nodes(child)][::-1]


def _entries(path: Path) -> Iterator[tuple[int, str]]:
    """Yield (exit code, entry) of every error that a module makes."""
    text = path.read_text("utf-8")
    if not any(name in text for name in _CODES):
        return
    tree = ast.parse(text)
    scopes = [tree, *(node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef)))]
    of_module = _assigned(tree)
    for scope in scopes:
        reader = _Reader(of_module | _assigned(scope))
        for node in _own(scope):
            if isinstance(node, ast.Call) and _last(node.func) in _CODES and node.args:
                yield _CODES[_last(node.func)], _entry(node, reader)


def _entry(node: ast.Call, reader: _Reader) -> str:
    given = {item.arg: item.value for item in node.keywords}
    lines = ["- " + " or ".join(map(_said, reader.visit(node.args[0])))]
    for name, label in (("why", "Why"), ("fix", "What to do")):
        texts = [text for text in reader.visit(given[name]) if text] if name in given else []
        if texts:
            lines.append(f"  - {label}: " + " or ".join(map(_said, texts)))
    commands = reader.commands(given["commands"]) if "commands" in given else []
    lines += [f"  - Run: {' or '.join(map(_said, texts))}" for texts in commands]
    return "\n".join(lines)


def _said(text: str) -> str:
    """Return a text of one line as code, which keeps everything in it as it is."""
    plain = " ".join(text.split())
    return f"`` {plain} ``" if "`" in plain else md.code(plain)


def page() -> str:
    """Return the page."""
    found: dict[int, set[str]] = defaultdict(set)
    for path in sorted(_ROOT.rglob("*.py")):
        if _DATA not in path.parents:
            for number, entry in _entries(path):
                found[number].add(entry)
    parts = [
        f"\n## {number}: {md.code(EXIT_CODES[number].code)}\n\n" + "\n".join(sorted(found[number])) + "\n"
        for number in sorted(found)
    ]
    return md.head("Error messages", "the syntax trees of xpubuild/") + _ABOUT + "".join(parts)
