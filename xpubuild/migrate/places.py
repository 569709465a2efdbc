"""Whether a text such as "cuda" stands where a device, or a backend of torch.distributed, is expected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import libcst as cst

from xpubuild.migrate.rules import table

_EMPTY = cst.Module(body=[])
_PRINTS = ("print", "info", "debug", "warning", "log", "error", "write")
#: Keyword arguments that are devices although their names do not say so.
_KEYWORDS = ("map_location", "location")


def code_of(node: cst.CSTNode) -> str:
    """Return the code of a node."""
    return _EMPTY.code_for_node(node)


class Places:
    """Answers for the nodes of one file, whose parents and names are known."""

    def __init__(self, parents: Mapping[Any, Any], name: Callable[[cst.CSTNode], str]) -> None:
        self._parents, self._name = parents, name

    def expects(self, node: cst.CSTNode, word: str) -> bool:
        """Return whether the place of a node is for a ``word``: "device" or "backend"."""
        parent = self._parents[node]
        match parent:
            case cst.Arg():
                return self._argument(parent, word)
            case cst.Comparison() | cst.ComparisonTarget():
                whole = parent if isinstance(parent, cst.Comparison) else self._parents[parent]
                return word in code_of(whole).lower()
            case cst.IfExp():
                choice = code_of(parent)
                return (
                    word == "device" and ("cpu" in choice or ".is_available()" in choice)
                ) or self.expects(parent, word)
            case cst.BooleanOperation() | cst.BinaryOperation() | cst.ConcatenatedString():
                return self.expects(parent, word)
            case cst.Element():
                row = self._parents[parent]
                return (word == "device" and '"cpu"' in code_of(row).replace("'", '"')) or self.expects(
                    row, word
                )
        return word in self._target(parent, node).lower()

    def _target(self, parent: cst.CSTNode, node: cst.CSTNode) -> str:
        """Return the code of what the value is for: a variable, a parameter, a key, a function."""
        match parent:
            case cst.Param():
                return "" if parent.annotation is node else parent.name.value
            case cst.Assign():
                return code_of(cst.Tuple([cst.Element(item.target) for item in parent.targets]))
            case cst.AnnAssign() | cst.NamedExpr() | cst.AugAssign():
                return code_of(parent.target)
            case cst.DictElement():
                return "" if parent.key is node else code_of(parent.key)
            case cst.Return():
                up: cst.CSTNode = parent
                while not isinstance(up, (cst.FunctionDef, cst.Module)):
                    up = self._parents[up]
                return up.name.value if isinstance(up, cst.FunctionDef) else ""
        return ""

    def _argument(self, argument: cst.Arg, word: str) -> bool:
        call = self._parents[argument]
        if not isinstance(call, cst.Call):
            return False
        if argument.keyword is not None:
            keyword = argument.keyword.value
            if word in keyword or (word == "device" and keyword in _KEYWORDS):
                return True
        elif self._is_plain_device(call, argument, word):
            return True
        others = (item for item in call.args if item is not argument)
        texts = (code_of(item.value).lower() for item in others if isinstance(item.value, cst.BaseString))
        return any(word in text for text in texts)

    def _is_plain_device(self, call: cst.Call, argument: cst.Arg, word: str) -> bool:
        place, function = call.args.index(argument), call.func
        if word == "backend":
            return place == 0 and self._name(function).endswith(".init_process_group")
        rows = table()["device_arguments"]
        if rows.get(self._name(function)) == place:
            return True
        if not isinstance(function, cst.Attribute):
            return False
        known = rows.get(f".{function.attr.value}") == place
        return known and (function.attr.value != "startswith" or "device" in code_of(function.value).lower())

    def is_printed(self, node: cst.CSTNode) -> bool:
        """Return whether a text is for a person."""
        call = self._parents.get(self._parents[node])
        if not isinstance(call, cst.Call):
            return False
        return code_of(call.func).rpartition(".")[2] in _PRINTS

    def is_type(self, node: cst.CSTNode) -> bool:
        """Return whether a name stands for a type: in an annotation or in isinstance."""
        up = self._parents[node]
        if isinstance(up, cst.Arg) and code_of(self._parents[up]).startswith("isinstance("):
            return True
        while isinstance(up, cst.BaseExpression | cst.SubscriptElement | cst.Index):
            up = self._parents[up]
        return isinstance(up, cst.Annotation)

    def quote_around(self, node: cst.CSTNode) -> str:
        """Return the quote of the formatted text that a node is in; empty where it is in none."""
        up = self._parents.get(node)
        while up is not None and not isinstance(up, (cst.BaseStatement, cst.BaseSmallStatement)):
            if isinstance(up, cst.FormattedString):
                return up.quote
            up = self._parents.get(up)
        return ""

    def is_fixed(self, node: cst.CSTNode) -> bool:
        """Return whether no expression can stand there: in patterns, annotations and docstrings."""
        up = node
        while not isinstance(up, (cst.BaseStatement, cst.BaseSmallStatement, cst.Module)):
            if isinstance(up, (cst.MatchPattern, cst.Annotation, cst.SubscriptElement)):
                return True
            up = self._parents[up]
        return isinstance(up, cst.Expr) and self._parents[node] is up
