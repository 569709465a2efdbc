"""Which of upstream's tests run: files of PyTorch's tree, and torch-xpu-ops' own with its lists.

torch-xpu-ops says in ``test/xpu``, for its release, which files its tests are and what is left out of each:
``skip_list_common.py`` has a dictionary since release 2.5; ``run_test_with_skip.py`` of 2.4 and
``run_test_with_only.py`` call ``launch_test`` with a list. They are read, not run. Variables that these
scripts set for pytest are set here too.
"""

from __future__ import annotations

import ast
import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.errors import UsageError, did_you_mean
from xpubuild.frozen import frozen

XPU_OPS = "third_party/torch-xpu-ops/test/xpu"
_LISTS = ("skip_list_common.py", "run_test_with_skip.py", "run_test_with_only.py")
#: The function that they call, and the parameters of it that count.
_LAUNCH = ("launch_test", "test_case", "skip_list", "exe_list")
_SETTERS = ("run_test_with_skip.py", "xpu_test_utils.py")
_VARIABLE = re.compile(r"\b(PYTORCH_[A-Z_]+)(?:[\"']\]\s*=\s*[\"']|=)1\b")
#: By device, the files of PyTorch that say most about it.
_DEFAULT = {
    "xpu": ("test/test_xpu.py", "test/xpu/test_gemm.py", "test/xpu/test_conv.py",
            "test/inductor/test_triton_kernels.py"),
    "cuda": ("test/test_cuda.py",),
    "cpu": ("test/test_view_ops.py",),
}  # fmt: skip
_DYNAMO = "benchmarks/dynamo/"
#: By script of benchmarks/dynamo, a few models that need no download beyond their code and run in minutes.
_MODELS = {
    "huggingface": ("AlbertForMaskedLM", "DistilBertForMaskedLM", "T5Small"),
    "timm_models": ("mobilenetv2_100", "resnet50", "visformer_small"),
    "torchbench": ("resnet18", "BERT_pytorch", "mobilenet_v2"),
}


@frozen
class Unit:
    """What one process runs: a file of tests, or a model in one mode of a script of benchmarks/dynamo."""

    name: str
    """The file as reports have it: below the source tree."""
    path: Path
    cwd: Path
    nodes: str = ""
    """What follows the file in a node id of pytest, with its colons."""
    without: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    model: str = ""
    mode: str = ""


def select(tree: Path, paths: Sequence[str], device: str, expression: str = "") -> tuple[Unit, ...]:
    """Return what runs for paths of the command line; without any, the default for the device.

    Raises:
        UsageError: a path or the tree is not there, or it has no tests.
    """
    if not (tree / "test").is_dir():
        fix = "pass the tree that torch was built from with --source"
        raise UsageError(f"{tree} is not a source tree of PyTorch", why="it has no folder test", fix=fix)
    found = [unit for given in paths for unit in _given(tree, given, device, expression)]
    if not paths:
        found = [*_of_xpu_ops(tree)] if device == "xpu" else []
        files = (tree / name for name in _DEFAULT[device])
        found += [unit for file in files if file.is_file() for unit in _of_file(tree, file, "", device)]
    if not found:
        why = f"in {tree} there is none of {', '.join(paths or _DEFAULT[device])}"
        raise UsageError("there are no tests to run", why=why, fix="name files, such as test/test_nn.py")
    return tuple({(unit.path, unit.nodes, unit.model, unit.mode): unit for unit in found}.values())


def _given(tree: Path, given: str, device: str, expression: str) -> Iterator[Unit]:
    file, colons, nodes = given.partition("::")
    path = next((place for place in (Path(file).absolute(), tree / file) if place.exists()), None)
    if path is None:
        raise UsageError(
            f"there is no {file}",
            why=f"neither in the current folder nor in {tree}"
            + did_you_mean(Path(file).name, [item.name for item in (tree / file).parent.glob("*.py")]),
            fix="name a file or folder of tests, such as test/test_nn.py",
        )
    if _below(tree, path).startswith(_DYNAMO) and path.stem in _MODELS:
        model, _, mode = nodes.rpartition("-")  # as reports name one: the file, ::MODEL-MODE
        found = _models(tree, path, model or expression)
        yield from (unit for unit in found if not model or (unit.model, unit.mode) == (model, mode))
        return
    for item in sorted(path.rglob("test_*.py")) if path.is_dir() else (path,):
        yield from _of_file(tree, item, colons + nodes, device)


def _below(tree: Path, path: Path) -> str:
    return path.relative_to(tree).as_posix() if tree in path.parents else str(path)


def _of_file(tree: Path, path: Path, nodes: str, device: str) -> Iterator[Unit]:
    base = next((base for base in _bases(tree) if base in path.parents), None)
    if base is not None:
        # Who names one test wants it, whatever the lists say.
        without, only = ((), ()) if nodes else _lists(base).get(path.relative_to(base).as_posix(), ((), ()))
        yield Unit(_below(tree, path), path, base, nodes, without, only, _variables(base))
    else:
        env = {"PYTORCH_TESTING_DEVICE_ONLY_FOR": device, "PYTHONPATH": str(tree / "test")}
        yield Unit(_below(tree, path), path, path.parent, nodes, env=env)


def _bases(tree: Path) -> tuple[Path, ...]:
    """Return the folders of torch-xpu-ops that have scripts with lists, the inner one first."""
    return (tree / XPU_OPS / "extended", tree / XPU_OPS)


def _of_xpu_ops(tree: Path) -> Iterator[Unit]:
    """Yield the files that torch-xpu-ops' own scripts run."""
    for base in reversed(_bases(tree)):
        for file, (without, only) in _lists(base).items():
            path = Path(os.path.normpath(base / file))  # some lead to PyTorch's own tests
            if path.is_file():
                yield Unit(_below(tree, path), path, base, "", without, only, _variables(base))


def _lists(base: Path) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return file -> (what its tests are without, what alone runs), from the scripts of a folder."""
    found: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
    names: dict[str, Any] = {}
    for script in _LISTS:
        for node in _parsed(base / script):
            call = getattr(node, "value", None)
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == _LAUNCH[0]:
                given = dict(zip(_LAUNCH[1:], call.args, strict=False))
                given |= {word.arg: word.value for word in call.keywords if word.arg}
                file, without, only = (_literal(given.get(key), names) for key in _LAUNCH[1:])
                if isinstance(file, str):
                    found[file] = (_words(without), _words(only))
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                names[node.targets[0].id] = _literal(node.value, names)
    skipped = names.get("skip_dict")
    listed = skipped if isinstance(skipped, dict) else {}
    return {**{file: (_words(words), ()) for file, words in listed.items()}, **found}


def _parsed(script: Path) -> list[ast.stmt]:
    try:
        return ast.parse(script.read_text("utf-8", "replace")).body if script.is_file() else []
    except (SyntaxError, ValueError) as error:
        fix = "correct it: it says which tests run"
        raise UsageError(f"{script} is not Python", why=str(error), fix=fix) from error


class _Names(ast.NodeTransformer):
    """Puts known names into a literal, also into f-strings, as the keys of release 2.14 have them."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return what a name stands for, "" where that is not known."""
        return ast.Constant(self._names.get(node.id, ""))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        """Return the text of an f-string; a part that is no known name is left out."""
        found = (part.value if isinstance(part, ast.FormattedValue) else part for part in node.values)
        parts = map(self.visit, found)
        return ast.Constant("".join(str(part.value) for part in parts if isinstance(part, ast.Constant)))


def _literal(node: ast.expr | None, names: Mapping[str, Any]) -> Any:
    with contextlib.suppress(ValueError):
        return ast.literal_eval(_Names(names).visit(node)) if node is not None else None
    return None


def _words(listed: object) -> tuple[str, ...]:
    """Return the words of a list; upstream joins them to one expression, and a few are parts of it."""
    items = listed if isinstance(listed, (tuple, list)) else ()
    words = (word.strip() for item in items for word in str(item).split(" and not "))
    return tuple(word for word in words if word)


def _variables(base: Path) -> dict[str, str]:
    texts = ((base / name).read_text("utf-8", "replace") for name in _SETTERS if (base / name).is_file())
    return {name: "1" for text in texts for name in _VARIABLE.findall(text)}


def _models(tree: Path, script: Path, expression: str) -> Iterator[Unit]:
    """Yield a few models in both modes; with an expression, those of the tree's list that have its words."""
    models, listed = list(_MODELS[script.stem]), script.with_name(f"{script.stem}_models_list.txt")
    if expression:
        lines = listed.read_text("utf-8").splitlines() if listed.is_file() else []
        words = [word.strip() for word in expression.split(" or ")]
        known = [*models, *(re.split(r"[,\s]", line)[0] for line in lines)]
        models = [name for name in dict.fromkeys(known) if name and any(word in name for word in words)]
    for model in models:
        for mode in ("inference", "training"):
            env = {"PYTHONPATH": str(script.parent)}
            yield Unit(_below(tree, script), script, script.parent, env=env, model=model, mode=mode)
