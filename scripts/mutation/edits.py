"""The mutants of a Python file: found in its syntax tree, made as edits of its text."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

_OPERATORS = {
    "==": "!=", "!=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
    "is not": "is", "is": "is not", "not in": "in", "in": "not in", "and": "or", "or": "and",
}  # fmt: skip
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>|\bis\s+not\b|\bnot\s+in\b|\b(?:is|in|and|or)\b")
_EMPTY = {
    "str": '""', "bytes": 'b""', "int": "0", "float": "0.0", "list": "[]", "dict": "{}", "Mapping": "{}",
    "tuple": "()", "Sequence": "()", "set": "set()", "frozenset": "frozenset()", "Iterator": "iter(())",
}  # fmt: skip
_TYPES = {"TypeVar", "ParamSpec", "NewType", "TypeAlias", "cast"}
_PAIR = 2
_UNUSED_NAMES = {"__all__", "__slots__"}


@dataclass(frozen=True)
class Mutant:
    """One edit: the bytes ``start`` to ``end`` of the file become ``new``.

    ``statement`` are the first and the last line of the statement it is in; ``at_import`` says that this one
    runs while the module is imported, in no function.
    """

    path: str
    kind: str
    line: int
    start: int
    end: int
    old: str
    new: str
    statement: tuple[int, int]
    at_import: bool
    id: str = ""

    def apply(self, text: str) -> str:
        """Return the text of the file with the edit."""
        data = text.encode()
        return (data[: self.start] + self.new.encode() + data[self.end :]).decode()


def invalid(mutant: Mutant, text: str) -> str:
    """Say why a mutant is none; "" where it is one."""
    try:
        changed = ast.parse(mutant.apply(text))
        compile(changed, mutant.path, "exec")
    except SyntaxError:
        return "does not compile"
    return "the same program" if ast.dump(changed) == ast.dump(ast.parse(text)) else ""


@dataclass(frozen=True)
class _Place:
    """Where a node is: the names of what encloses it, its statement, what its function returns."""

    names: tuple[str, ...] = ()
    statement: tuple[int, int] = (1, 1)
    at_import: bool = True
    returns: ast.expr | None = None


@dataclass
class _File:
    path: str
    text: str
    left_out: Counter[str] = field(default_factory=Counter)
    found: dict[tuple[int, int, str], tuple[Mutant, _Place]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = self.text.encode()
        lengths = [len(line) for line in self.data.split(b"\n")]
        self.lines = [sum(lengths[:index]) + index for index in range(len(lengths))]

    def start(self, node: Any) -> int:
        return int(self.lines[node.lineno - 1] + node.col_offset)

    def end(self, node: Any) -> int:
        return int(self.lines[node.end_lineno - 1] + node.end_col_offset)

    def old(self, start: int, end: int) -> str:
        return self.data[start:end].decode()

    def of(self, node: ast.AST) -> str:
        return self.old(self.start(node), self.end(node))


_Edit = tuple[str, int, int, str]


def _whole(file: _File, kind: str, node: ast.AST, new: str) -> _Edit:
    return kind, file.start(node), file.end(node), new


def _operators(file: _File, kind: str, operands: list[ast.expr]) -> Iterator[_Edit]:
    for left, right in pairwise(operands):
        start = file.end(left)
        match = _OPERATOR.search(file.old(start, file.start(right)))
        if match:
            new = _OPERATORS[" ".join(match[0].split())]
            yield kind, start + match.start(), start + match.end(), new


def _is_flipped(node: ast.expr) -> bool:
    """Whether another kind already makes the opposite of this condition."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and not isinstance(node.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE)
    return isinstance(node, ast.UnaryOp | ast.Constant)


def _conditions(file: _File, node: Any, _: _Place) -> Iterator[_Edit]:
    tests = node.ifs if isinstance(node, ast.comprehension) else [node.test]
    for test in tests:
        if not _is_flipped(test):
            yield _whole(file, "condition", test, f"not ({file.of(test)})")


def _not(file: _File, node: ast.AST, _: _Place) -> Iterator[_Edit]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "condition", file.start(node), file.start(node.operand), ""


def _constants(file: _File, node: ast.AST, _: _Place) -> Iterator[_Edit]:
    if isinstance(node, ast.JoinedStr):
        yield _whole(file, "constant", node, '""')
    elif not isinstance(node, ast.Constant):
        return
    elif isinstance(node.value, bool):
        yield _whole(file, "constant", node, str(not node.value))
    elif isinstance(node.value, int | float):
        yield _whole(file, "constant", node, str(node.value + 1))
        yield _whole(file, "constant", node, str(node.value - 1))
    elif isinstance(node.value, str | bytes) and node.value:
        yield _whole(file, "constant", node, repr(node.value[:0]).replace("'", '"'))


def _returns(file: _File, node: ast.AST, place: _Place) -> Iterator[_Edit]:
    if not isinstance(node, ast.Return) or node.value is None:
        return
    kind = re.match(r"\w*", ast.unparse(place.returns))[0] if place.returns else ""  # type: ignore[index]
    if kind == "bool":
        if not _is_flipped(node.value):
            yield _whole(file, "return", node.value, f"not ({file.of(node.value)})")
    elif file.of(node.value) != _EMPTY.get(kind, "None"):
        yield _whole(file, "return", node.value, _EMPTY.get(kind, "None"))


def _without(kind: str, parts: list[tuple[int, int]]) -> Iterator[_Edit]:
    """Take each part out of a list that commas divide."""
    for index, (start, end) in enumerate(parts):
        if index + 1 < len(parts):
            yield kind, start, parts[index + 1][0], ""
        else:
            yield kind, parts[index - 1][1] if index else start, end, ""


def _idle(call: ast.AST, keyword: ast.keyword) -> str:
    """Say why a keyword argument has no effect in a test run; "" where it has."""
    if keyword.arg == "strict" and _name(call) == "zip":
        return "zip(strict=) asserts what holds"
    return "encoding= is what the locale of the test run says too" if keyword.arg == "encoding" else ""


def _arguments(file: _File, node: ast.AST, _: _Place) -> Iterator[_Edit]:
    if not isinstance(node, ast.Call):
        return
    spans = sorted((file.start(part), file.end(part)) for part in (*node.args, *node.keywords))
    edits = dict(zip(spans, _without("argument", spans), strict=True))
    for keyword in node.keywords:
        if keyword.arg == "check" and getattr(keyword.value, "value", None) is False:
            file.left_out["check=False is subprocess's default"] += 1
        elif not _idle(node, keyword):
            yield edits[file.start(keyword), file.end(keyword)]


def _elements(file: _File, node: ast.AST, _: _Place) -> Iterator[_Edit]:
    if isinstance(node, ast.Dict) and None not in node.keys:
        pairs = zip(node.keys, node.values, strict=True)
        yield from _without("element", [(file.start(key), file.end(value)) for key, value in pairs if key])
    if not isinstance(node, ast.List | ast.Tuple | ast.Set) or isinstance(
        getattr(node, "ctx", None), ast.Store
    ):
        return
    spans = [(file.start(part), file.end(part)) for part in node.elts]
    if isinstance(node, ast.Tuple) and len(spans) <= _PAIR:  # without its comma it would be no tuple
        for one in spans:
            rest = "".join(file.old(*span) + "," for span in spans if span != one)
            yield _whole(file, "element", node, f"({rest})")
    else:
        yield from _without("element", spans)


def _statements(file: _File, node: ast.AST, _: _Place) -> Iterator[_Edit]:
    if isinstance(node, ast.Raise):
        yield _whole(file, "raise", node, "pass")
    elif isinstance(node, ast.Assign):
        if all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets):
            yield _whole(file, "statement", node, "pass")
    elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
        yield _whole(file, "statement", node, "pass")


def _bodies(file: _File, node: Any, _: _Place) -> Iterator[_Edit]:
    kind, body = (
        ("handler", node.body) if isinstance(node, ast.ExceptHandler) else ("finally", node.finalbody)
    )
    if body and not (len(body) == 1 and isinstance(body[0], ast.Pass | ast.Raise)):
        yield kind, file.start(body[0]), file.end(body[-1]), "pass"


def _slices(file: _File, node: ast.AST, _: _Place) -> Iterator[_Edit]:
    bounds = (node.lower, node.upper) if isinstance(node, ast.Slice) else ()
    for bound in bounds:
        if bound is not None:
            yield _whole(file, "slice", bound, "")
            if not isinstance(bound, ast.Constant | ast.UnaryOp):
                yield _whole(file, "slice", bound, f"{file.of(bound)} + 1")


_Maker = Callable[[_File, Any, _Place], Iterator[_Edit]]
_MAKERS: tuple[tuple[tuple[type[ast.AST], ...], _Maker], ...] = (
    ((ast.Compare,), lambda f, n, _: _operators(f, "comparison", [n.left, *n.comparators])),
    ((ast.BoolOp,), lambda f, n, _: _operators(f, "boolean", n.values)),
    ((ast.If, ast.While, ast.IfExp, ast.comprehension), _conditions),
    ((ast.UnaryOp,), _not),
    ((ast.Constant, ast.JoinedStr), _constants),
    ((ast.Return,), _returns),
    ((ast.Call,), _arguments),
    ((ast.List, ast.Tuple, ast.Set, ast.Dict), _elements),
    ((ast.Expr, ast.Raise, ast.Assign, ast.AugAssign, ast.Delete, ast.Break, ast.Continue), _statements),
    ((ast.ExceptHandler, ast.Try), _bodies),
    ((ast.Slice,), _slices),
)


def _name(node: ast.AST) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    node = node.value if isinstance(node, ast.Subscript) else node
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


_ABSTRACT = {"overload", "abstractmethod"}


def _targets(node: ast.AST) -> set[str]:
    found = [*getattr(node, "targets", ()), getattr(node, "target", None)]
    return {_name(target) for target in found if target is not None}


#: What nothing is changed in, and why.
_LEFT_OUT: tuple[tuple[tuple[type[ast.AST], ...], Callable[[Any], object], str], ...] = (
    ((ast.If,), lambda node: _name(node.test) == "TYPE_CHECKING", "for the type checker alone"),
    ((ast.Call,), lambda node: _name(node) in _TYPES, "for the type checker alone"),
    ((ast.AnnAssign,), lambda node: _name(node.annotation) in _TYPES, "for the type checker alone"),
    ((ast.If,), lambda node: _name(getattr(node.test, "left", node)) == "__name__", "start as a program"),
    ((ast.Assign, ast.AnnAssign), lambda node: _targets(node) & _UNUSED_NAMES, "__all__ and __slots__"),
    ((ast.FunctionDef,), lambda node: {_name(d) for d in node.decorator_list} & _ABSTRACT, "never called"),
    ((ast.ClassDef,), lambda node: "Protocol" in map(_name, node.bases), "never called"),
)


def _why_not(node: ast.AST) -> str:
    """Say why nothing in a node is changed; "" where it is."""
    return next((why for types, applies, why in _LEFT_OUT if isinstance(node, types) and applies(node)), "")


def _children(node: ast.AST, file: _File) -> Iterator[ast.AST]:
    """Return what of a node can be changed: no annotation, docstring, base class or part of an f-string."""
    if isinstance(node, ast.JoinedStr):
        return
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "bases", "type_params"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if name == "decorator_list" and _name(child) in ("dataclass", "total_ordering"):
                file.left_out["arguments of @dataclass"] += isinstance(child, ast.Call)
            elif isinstance(child, ast.Constant) and isinstance(node, ast.Expr):
                continue
            elif isinstance(child, ast.keyword) and (reason := _idle(node, child)):
                file.left_out[reason] += 1
            elif isinstance(child, ast.Tuple) and isinstance(node, ast.Subscript):
                yield from child.elts
            elif isinstance(child, ast.AST):
                yield child


def _statement(node: ast.stmt | ast.ExceptHandler) -> tuple[int, int]:
    """Return the lines of a simple statement, or of the head of one with a body."""
    body = getattr(node, "body", None)
    last = max(node.lineno, body[0].lineno - 1) if isinstance(body, list) and body else node.end_lineno
    return node.lineno, last or node.lineno


def _visit(file: _File, node: ast.AST, place: _Place) -> None:
    reason = _why_not(node)
    if reason:
        file.left_out[reason] += 1
        return
    if isinstance(node, ast.stmt | ast.ExceptHandler):
        place = replace(place, statement=_statement(node))
    for types, maker in _MAKERS:
        if isinstance(node, types):
            for kind, start, end, new in maker(file, node, place):
                line = file.data.count(b"\n", 0, start) + 1
                mutant = Mutant(
                    file.path,
                    kind,
                    line,
                    start,
                    end,
                    file.old(start, end),
                    new,
                    place.statement,
                    place.at_import,
                )
                file.found.setdefault((start, end, new), (mutant, place))
    inner = place
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        inner = replace(place, names=(*place.names, node.name))
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        inner = replace(inner, at_import=False, returns=getattr(node, "returns", None))
    body = getattr(node, "body", None)
    for child in _children(node, file):
        in_body = child is body or (isinstance(body, list) and child in body)
        _visit(file, child, inner if in_body else place)


def mutants(path: str, text: str) -> tuple[list[Mutant], Counter[str]]:
    """Return the mutants of a file in the order of the text, and how often what was left out, by reason.

    Their ids stay while their function does, wherever it is in the file. They may be ``invalid`` yet.
    """
    file = _File(path, text)
    _visit(file, ast.parse(text), _Place())
    seen: Counter[tuple[object, ...]] = Counter()
    result = []
    for _, (mutant, place) in sorted(file.found.items()):
        key = (path, place.names, mutant.kind, mutant.old, mutant.new)
        seen[key] += 1
        name = hashlib.sha256(repr((key, seen[key])).encode()).hexdigest()[:10]
        result.append(replace(mutant, id=name))
    return result, file.left_out
