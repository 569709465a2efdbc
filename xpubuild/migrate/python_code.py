"""Rewrites one Python file: comments and layout are kept, and only nodes of the plan are replaced."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import libcst as cst
from libcst.metadata import (
    MetadataWrapper,
    ParentNodeProvider,
    PositionProvider,
    QualifiedNameSource,
    Scope,
    ScopeProvider,
)

from xpubuild.migrate.imports import (
    EQUAL,
    HELPER,
    Edit,
    argument,
    bound_torch,
    classes_with_cuda,
    drop_unused,
    helper_of,
    is_definition,
    may_be_none,
    requoted,
    root,
    says,
    with_first,
    with_lines,
)
from xpubuild.migrate.places import Places, code_of
from xpubuild.migrate.rules import Found, Reason, Rewritten, Rules, Written, reason, table

#: A file without any of these words has nothing to rewrite and nothing to report.
_ANY = re.compile(
    r"cuda|nccl|ipex|intel_extension|oneccl|torch\.xpu|DataParallel|gpus?\b|accelerator", re.IGNORECASE
)
_DEVICE = re.compile(r"cuda(?P<rest>:(?:\d+|%[ds]|\{[^}]*\})?)?")


def rewrite(text: str, rules: Rules) -> Rewritten:
    """Return the rewritten text of a module.

    Raises:
        libcst.ParserSyntaxError: it does not parse.
    """
    packages = (name for name in table()["findings"] if not name.startswith("torch."))
    if not _ANY.search(text) and not any(name in text for name in packages):
        return Rewritten(text, 0, ())
    wrapper = MetadataWrapper(cst.parse_module(text), unsafe_skip_copy=True)
    scan = _Scan(rules, wrapper.module)
    wrapper.visit(scan)
    for node, scope in scan.imports.items():
        drop_unused(node, scope, wrapper.resolve(ParentNodeProvider)[node], scan.replaced, scan.edits)
    if not scan.edits:
        return Rewritten(text, 0, tuple(scan.found))
    new = with_lines(wrapper.module.visit(_Apply(scan.edits)), scan.torch, scan.needs())
    return Rewritten(new.code, len(scan.edits), tuple(scan.found))


class _Apply(cst.CSTTransformer):
    def __init__(self, edits: Mapping[cst.CSTNode, Edit]) -> None:
        super().__init__()
        self._edits = edits

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        """Replace what the plan has."""
        edit = self._edits.get(original_node)
        return updated_node if edit is None else edit(updated_node)


class _Scan(cst.CSTVisitor):
    """Plans the edits of a module, and collects what is left."""

    METADATA_DEPENDENCIES = (ParentNodeProvider, PositionProvider, ScopeProvider)

    def __init__(self, rules: Rules, module: cst.Module) -> None:
        super().__init__()
        self._rules, self._code, self._lines = rules, module.code, module.code.splitlines()
        self.edits: dict[cst.CSTNode, Edit] = {}
        self.found: list[Found] = []
        self.imports: dict[cst.Import | cst.ImportFrom, Scope | None] = {}
        #: Names at the beginning of what was replaced.
        self.replaced: set[cst.CSTNode] = set()
        self.torch, self._device = bound_torch(module), helper_of(module, rules)
        self._own_cuda = classes_with_cuda(module)
        self._uses_torch = self._uses_helper = False

    def visit_Module(self, _: cst.Module) -> None:  # noqa: N802
        """Take what is known of the nodes."""
        self._parents: Mapping[Any, Any] = self.metadata[ParentNodeProvider]
        self._places = Places(self._parents, self._name)

    def visit_Import(self, node: cst.Import) -> bool:  # noqa: N802
        """Report packages for CUDA."""
        for item in node.names:
            self._package(node, code_of(item.name))
        self.imports[node] = self.get_metadata(ScopeProvider, node, None)
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:  # noqa: N802
        """Report packages for CUDA."""
        if node.module is not None and not node.relative:
            self._package(node, code_of(node.module))
            if isinstance(node.names, cst.ImportStar) and code_of(node.module).startswith("torch.cuda"):
                self._report(node, reason("own", "as-a-value", name=code_of(node.module)))
        self.imports[node] = self.get_metadata(ScopeProvider, node, None)
        return False

    def _package(self, node: cst.CSTNode, name: str) -> None:
        if not name.startswith("torch.") and name != "torch":
            answer = self._rules.look_up(name)
            if isinstance(answer, Reason):
                self._report(node, answer)

    def visit_Attribute(self, node: cst.Attribute) -> bool:  # noqa: N802
        """Plan what stands for a dotted name, the longest first."""
        if self._plan_name(node):
            return False
        attribute = node.attr.value
        if attribute in table()["attributes"]:
            self._report(node, reason("attributes", attribute))
        if attribute == "is_cuda" and not isinstance(self._parents[node], cst.AssignTarget):
            self._plan_is_cuda(node)
        node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:  # noqa: N802
        """Plan what stands for a name that was imported."""
        parent = self._parents[node]
        is_keyword = isinstance(parent, cst.Arg) and parent.keyword is node
        if not is_keyword and not isinstance(
            parent, (cst.Param, cst.FunctionDef, cst.ClassDef, cst.NameItem)
        ):
            self._plan_name(node)

    def _names(self, node: cst.CSTNode) -> tuple[set[str], bool]:
        """Return the full names of a node by its imports, and whether it may be something else too."""
        first = root(node)
        scope = self.get_metadata(ScopeProvider, first, None) if first is not None else None
        if scope is None or first is None:
            return set(), False
        known = scope.get_qualified_names_for(node)
        imported = {item.name for item in known if item.source is QualifiedNameSource.IMPORT}
        if not known and first.value == "torch":
            return {code_of(node)}, False  # from a star import
        return imported, len(imported) != len(known)

    def _name(self, node: cst.CSTNode) -> str:
        found, _ = self._names(node)
        return next(iter(found)) if len(found) == 1 else ""

    def _plan_name(self, node: cst.Attribute | cst.Name) -> bool:
        """Plan or report a name of the table; return whether it was one."""
        found, is_more = self._names(node)
        answers = {name: self._rules.look_up(name) for name in found}
        name = next((name for name, answer in answers.items() if answer is not None), None)
        if name is None:
            return False
        answer = answers[name]
        if isinstance(answer, Written) and (is_more or len(found) > 1):
            answer = reason("own", "several-meanings", name=name)
        if isinstance(answer, Written):
            self._write(node, name, answer)
        elif answer is not None:
            self._report(node, answer)
        return True

    def _write(self, node: cst.Attribute | cst.Name, name: str, answer: Written) -> None:
        parent = self._parents[node]
        is_called = isinstance(parent, cst.Call) and parent.func is node
        if answer.device and not is_called:
            if isinstance(parent, cst.Decorator) and answer.device == "named":
                text = f"{self._fill(answer.text)}(device_type={self._fill('{device}')})"
                self._plan(node, lambda _: cst.parse_expression(text))
                return
            if not self._places.is_type(node):
                self._report(node, reason("own", "as-a-value", name=name))
                return
        self._plan(node, self._expression(answer.text))
        if is_called:
            self._plan_call(parent, answer)

    def _plan_call(self, call: cst.Call, answer: Written) -> None:
        """Plan the arguments of a call whose function is replaced."""
        if "torch.accelerator." in answer.text.replace("{torch}", "torch") and call.args:
            # These take the device as a plain argument alone.
            self._plan(call, lambda new: new.with_changes(args=[new.args[0].with_changes(
                keyword=None, equal=cst.MaybeSentinel.DEFAULT), *new.args[1:]]))  # fmt: skip
        if not answer.device:
            return
        device = self._fill("{device}")
        first = argument(device, "device_type" if answer.device == "named" else "")
        names = () if answer.device in ("first", "named") else tuple(answer.device.split())
        self._plan(call, lambda new: new.with_changes(args=with_first(first, new.args, names)))

    # Methods and attributes of tensors and modules.

    def visit_FunctionDef(self, node: cst.FunctionDef) -> bool:  # noqa: N802
        """Leave a method cuda as it is."""
        is_method = isinstance(self._parents.get(self._parents[node]), cst.ClassDef)
        if node.name.value == "cuda" and is_method:
            self._report(node.name, reason("own", "own-method"))
            return False
        return True

    def visit_Call(self, node: cst.Call) -> None:  # noqa: N802
        """Plan x.cuda(...), and report keywords that are for CUDA."""
        for item in node.args:
            keyword = item.keyword.value if item.keyword else ""
            row = table()["keywords"].get(keyword)
            if row and re.fullmatch(row["values"], code_of(item.value)):
                self._report(item, reason("keywords", keyword))
        function = node.func
        if (
            not isinstance(function, cst.Attribute)
            or function.attr.value != "cuda"
            or self._name(function) == "torch.cuda"
        ):
            return
        owner = code_of(function.value)
        if owner.rpartition(".")[2] in ("storage", "args", "config", "cfg", "opt"):
            if owner == "storage":
                self._report(node, reason("own", "storage"))
        elif self._is_own(function.value):
            self._report(node, reason("own", "own-method"))
        elif any(item.star for item in node.args):
            self._report(node, reason("own", "collected-arguments"))
        else:
            self._plan_cuda(node)

    def _is_own(self, owner: cst.BaseExpression) -> bool:
        """Return whether an object is of a class of this file that has a method cuda."""
        name = code_of(owner)
        made = re.compile(rf"^\s*{re.escape(name)}\s*=\s*(?:{'|'.join(self._own_cuda)})\(", re.MULTILINE)
        return bool(self._own_cuda) and bool(made.search(self._code))

    def _plan_cuda(self, node: cst.Call) -> None:
        device = self._fill("{device}")
        place = next((item for item in node.args if says(item, "device", node.args.index(item) == 0)), None)
        if place is not None and isinstance(place.value, cst.Integer):
            device = self._numbered(f":{place.value.value}", '"', "")
        others = [
            item.keyword.value if item.keyword else "non_blocking" for item in node.args if item is not place
        ]
        optional = place is not None and may_be_none(place.value)

        def edit(new: cst.Call) -> cst.Call:
            values = [item.value for item, old in zip(new.args, node.args, strict=True) if old is not place]
            given = next(
                (item.value for item, old in zip(new.args, node.args, strict=True) if old is place), None
            )
            first: cst.BaseExpression = cst.parse_expression(device)
            if given is not None and not isinstance(given, cst.Integer):
                first = given
                if optional:
                    first = cst.parse_expression(
                        f"{device} if {code_of(given)} is None else {code_of(given)}"
                    )
            arguments = [cst.Arg(first)] + [
                cst.Arg(value, cst.Name(name), equal=EQUAL)
                for name, value in zip(others, values, strict=True)
            ]
            function = new.func.with_changes(attr=cst.Name("to"))
            return new.with_changes(func=function, args=arguments)

        self._plan(node, edit)

    def _plan_is_cuda(self, node: cst.Attribute) -> None:
        if self._rules.to == "xpu":
            self._plan(node, lambda new: new.with_changes(attr=cst.Name("is_xpu")))
            return
        device = self._fill("{device}")
        self._plan(node, lambda new: cst.parse_expression(f"({code_of(new.value)}.device.type == {device})"))

    # Texts.

    def visit_SimpleString(self, node: cst.SimpleString) -> None:  # noqa: N802
        """Plan a text that is a device or a backend."""
        value = node.evaluated_value
        if not isinstance(value, str) or self._is_helper(node):
            return
        if value == "nccl":
            self._plan_backend(node)
            return
        match = _DEVICE.fullmatch(value)
        if match is None:
            if value == "CUDA_VISIBLE_DEVICES" or "CUDA_VISIBLE_DEVICES=" in value:
                self._report(node, reason("own", "visible-devices"))
            elif re.fullmatch(r"torch\.cuda\.\w*Tensor", value):
                self._report(node, reason("legacy_type", "torch.cuda.tensor-type"))
            elif value.lower().startswith("cuda out of memory") and not self._places.is_printed(node):
                self._report(node, reason("own", "message"))
            return
        rest = match["rest"] or ""
        is_device = (bool(rest) and not self._places.is_printed(node)) or self._places.expects(node, "device")
        if self._places.is_fixed(node) or not is_device:
            if not isinstance(self._parents[node], cst.Expr) and not self._places.is_printed(node):
                self._report(node, reason("own", "unclear-text"))
            return
        self._plan_device(node, rest)

    def _plan_device(self, node: cst.SimpleString, rest: str) -> None:
        if self._rules.to == "xpu":
            self._plan(node, lambda new: new.with_changes(value=new.value.replace("cuda", "xpu", 1)))
            return
        is_part = isinstance(self._parents[node], cst.ConcatenatedString)
        text = self._numbered(rest, node.quote, node.prefix) if rest or is_part else self._fill("{device}")
        self._plan(node, lambda _: cst.parse_expression(text))

    def _numbered(self, rest: str, quote: str, prefix: str) -> str:
        """Return the code of a device with what stands behind it, such as ":0" or ":{}"."""
        device = self._fill("{device}")
        if self._rules.to == "xpu":
            return f"{quote}{device.strip(chr(34))}{rest}{quote}"
        if "{" in rest:
            return f"({device} + {prefix}{quote}{rest}{quote})"
        return f"f{quote}{{{device}}}{rest}{quote}"

    def _plan_backend(self, node: cst.SimpleString) -> None:
        if self._places.is_fixed(node) or not self._places.expects(node, "backend"):
            if not self._places.is_printed(node):
                self._report(node, reason("own", "unclear-text"))
        elif self._rules.backend is None:
            self._report(node, reason("own", "backend", release=self._rules.release))
        else:
            self._plan(node, self._expression(self._rules.backend))

    def visit_FormattedString(self, node: cst.FormattedString) -> None:  # noqa: N802
        """Plan a text such as f"cuda:{rank}"."""
        first = node.parts[0] if node.parts else None
        if not isinstance(first, cst.FormattedStringText) or not re.match(r"cuda(:|$)", first.value):
            return
        if len(node.parts) == 1 and not _DEVICE.fullmatch(first.value):
            return
        if self._places.is_printed(node):
            return
        if self._rules.to == "xpu":
            changed = first.value.replace("cuda", "xpu", 1)
            self._plan(first, lambda new: new.with_changes(value=changed))
            return
        device = cst.parse_expression(self._fill("{device}"))
        rest = first.value.removeprefix("cuda")
        parts: list[cst.CSTNode] = [cst.FormattedStringExpression(device)]
        parts += [cst.FormattedStringText(rest)] if rest else []
        self._plan(node, lambda new: new.with_changes(parts=[*parts, *new.parts[1:]]))

    def _is_helper(self, node: cst.CSTNode) -> bool:
        """Return whether a text belongs to the definition that an earlier run wrote."""
        up = self._parents.get(node)
        while up is not None and not isinstance(up, cst.Assign):
            up = self._parents.get(up)
        return up is not None and is_definition(up)

    # The plan.

    def _plan(self, node: cst.CSTNode, edit: Edit) -> None:
        earlier = self.edits.get(node)
        both = (lambda new: edit(earlier(new))) if earlier else edit
        self.edits[node] = requoted(both, self._places.quote_around(node))
        first = root(node)
        if first is not None:
            self.replaced.add(first)

    def _report(self, node: cst.CSTNode, why: Reason) -> None:
        line = self.get_metadata(PositionProvider, node).start.line
        if not any(item.line == line and item.reason.id == why.id for item in self.found):
            text = self._lines[line - 1].strip()
            self.found.append(Found(line, text, why))

    def _fill(self, text: str) -> str:
        if "{torch}" in text:
            self._uses_torch = True
        if "{device}" not in text:
            return text.format(torch=self.torch or "torch")
        if self._rules.to == "xpu":
            return text.format(torch=self.torch or "torch", device='"xpu"')
        self._uses_helper = True
        return text.format(torch=self.torch or "torch", device=self._device or HELPER)

    def _expression(self, text: str) -> Edit:
        filled = self._fill(text)

        def edit(old: Any) -> cst.CSTNode:
            return cst.parse_expression(filled).with_changes(lpar=old.lpar, rpar=old.rpar)

        return edit

    def needs(self) -> str | None:
        """Return the expression of the definition that the edits need; "": torch alone; None: neither."""
        if self._uses_helper and self._device is None:
            return self._rules.definition
        return "" if self._uses_torch or self._uses_helper else None
