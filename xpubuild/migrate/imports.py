"""The imports of a module, and small questions about its tree."""

from __future__ import annotations

import re
from collections.abc import Callable, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import libcst as cst
from libcst.metadata import Scope

from xpubuild.migrate.places import code_of
from xpubuild.migrate.rules import Rules

Edit = Callable[[Any], Any]
HELPER = "ACCELERATOR"
EQUAL = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


def requoted(edit: Edit, quote: str) -> Edit:
    """Return an edit of a part of a formatted text: before Python 3.12 it has no quotes of that text."""

    def quoted(old: Any) -> Any:
        new = edit(old)
        if not quote or not isinstance(new, cst.BaseExpression) or quote not in code_of(new):
            return new
        return cst.parse_expression(code_of(new).replace(quote, "'" if quote == '"' else '"'))

    return quoted


def argument(code: str, keyword: str = "") -> cst.Arg:
    """Return an argument from its code."""
    value = cst.parse_expression(code)
    return cst.Arg(value, cst.Name(keyword), equal=EQUAL) if keyword else cst.Arg(value)


def with_first(first: cst.Arg, given: Sequence[cst.Arg], names: Sequence[str]) -> list[cst.Arg]:
    """Return the arguments behind a new first one; plain ones get the names that they had by their place."""
    named = [
        item.with_changes(keyword=cst.Name(names[place]), equal=EQUAL)
        if place < len(names) and item.keyword is None and not item.star
        else item
        for place, item in enumerate(given)
    ]
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if named else cst.MaybeSentinel.DEFAULT
    return [first.with_changes(comma=comma), *named]


def root(node: cst.CSTNode) -> cst.Name | None:
    """Return the name that a dotted name begins with."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def bound(item: cst.ImportAlias) -> str:
    """Return the name that an import binds."""
    return item.evaluated_alias or item.evaluated_name.partition(".")[0]


def is_of_cuda(module: str, item: cst.ImportAlias) -> bool:
    """Return whether an imported name is for CUDA, and does not bind torch itself."""
    full = f"{module}.{item.evaluated_name}" if module else item.evaluated_name
    return full.startswith(("torch.cuda", "torch.xpu.amp")) and bound(item) != "torch"


def says(argument: cst.Arg, name: str, is_first: bool) -> bool:
    """Return whether an argument is the one of this name, or the first."""
    return argument.keyword.value == name if argument.keyword else is_first


def may_be_none(value: cst.BaseExpression) -> bool:
    """Return whether an argument of cuda() may be None, which means the current device there alone."""
    if not isinstance(value, (cst.Name, cst.Attribute)):
        return False
    return "rank" not in code_of(value).lower()


def bound_torch(module: cst.Module) -> str | None:
    """Return the name of torch at the top level of a module."""
    for statement in module.body:
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Import):
            for item in statement.body[0].names:
                name = item.evaluated_name
                if name == "torch" or (name.startswith("torch.") and item.asname is None):
                    return item.evaluated_alias or "torch"
    return None


def is_definition(node: cst.Assign) -> bool:
    """Return whether an assignment is the one that migrate writes."""
    return bool(re.match(r"(str\()?\w+\.accelerator\.current_accelerator\(\)", code_of(node.value)))


def helper_of(module: cst.Module, rules: Rules) -> str | None:
    """Return the name that an earlier run defined for the device."""
    if rules.to == "xpu":
        return None
    for statement in module.body:
        if isinstance(statement, cst.SimpleStatementLine) and isinstance(statement.body[0], cst.Assign):
            assign = statement.body[0]
            if code_of(assign.targets[0].target) == HELPER and is_definition(assign):
                return HELPER
    return None


def classes_with_cuda(module: cst.Module) -> list[str]:
    """Return the classes of a module that have a method cuda."""
    return [
        node.name.value
        for node in module.body
        if isinstance(node, cst.ClassDef)
        and any(isinstance(item, cst.FunctionDef) and item.name.value == "cuda" for item in node.body.body)
    ]


def after_imports(module: cst.Module) -> int:
    """Return the place behind the imports that a module begins with, and behind that of torch."""
    place, is_leading = 0, True
    for number, statement in enumerate(module.body):
        first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(first, (cst.Import, cst.ImportFrom)):
            is_torch = isinstance(first, cst.Import) and any(
                item.evaluated_name.partition(".")[0] == "torch" for item in first.names
            )
            if is_leading or (
                is_torch and bound_torch(module.with_changes(body=module.body[:number])) is None
            ):
                place = number + 1
        elif isinstance(first, cst.Pass) and is_leading:  # a line of a notebook that is no Python
            place = place if "%%" in code_of(statement) else number + 1
        elif not (isinstance(first, cst.Expr) or isinstance(statement, (cst.Try, cst.If))):
            is_leading = False
        elif number == 0:
            place = 1
    return place


def drop_unused(
    node: cst.Import | cst.ImportFrom, scope: Scope | None, line: Any, replaced: AbstractSet[cst.CSTNode],
    edits: MutableMapping[cst.CSTNode, Edit],
) -> None:  # fmt: skip
    """Plan to remove the names of an import of which all uses were replaced."""
    if scope is None or isinstance(node.names, cst.ImportStar):
        return
    module = code_of(node.module) if isinstance(node, cst.ImportFrom) and node.module else ""
    left = [
        item
        for item in node.names
        if not is_of_cuda(module, item) or not _is_unused(scope, bound(item), replaced)
    ]
    if len(left) == len(node.names):
        return
    if left:
        left[-1] = left[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        edits[node] = lambda new: new.with_changes(names=left)
    else:
        edits[line if len(line.body) == 1 else node] = lambda _: cst.RemoveFromParent()


def _is_unused(scope: Scope, name: str, replaced: AbstractSet[cst.CSTNode]) -> bool:
    uses = [root(access.node) for item in scope[name] for access in item.references]
    return bool(uses) and len(scope[name]) == 1 and all(use in replaced for use in uses)


def with_lines(module: Any, torch: str | None, definition: str | None) -> Any:
    """Return the module with an import of torch, if it has none, and the definition of the device."""
    if definition is None or (torch is not None and not definition):
        return module
    name = torch or "torch"
    place = min(after_imports(module), _first_use(module, HELPER if definition else f"{name}."))
    is_bound = bound_torch(module.with_changes(body=module.body[:place])) is not None
    lines = [] if is_bound else ["import torch" if name == "torch" else f"import torch as {name}"]
    lines += [f"{HELPER} = {definition.format(torch=name)}"] if definition else []
    added = [cst.parse_statement(line, module.config_for_parsing) for line in lines]
    if definition:
        added[-1] = added[-1].with_changes(leading_lines=[cst.EmptyLine(indent=False)])
    return module.with_changes(body=[*module.body[:place], *added, *module.body[place:]])


def _first_use(module: cst.Module, word: str) -> int:
    """Return the place of the first statement that has a word and runs when the module is loaded."""
    uses = re.compile(rf"\b{re.escape(word)}")
    for place, statement in enumerate(module.body):
        first = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else statement
        if isinstance(first, cst.FunctionDef):
            first = first.with_changes(body=cst.IndentedBlock([]), leading_lines=[])
        is_text = isinstance(first, cst.Expr) and isinstance(first.value, cst.BaseString)
        if isinstance(first, (cst.Import, cst.ImportFrom)) or is_text:
            continue
        if uses.search(code_of(first if isinstance(first, cst.FunctionDef) else statement)):
            return place
    return len(module.body)
