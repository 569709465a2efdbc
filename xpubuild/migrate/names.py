"""Which calls a torch has: read from its source files, or from the table of its release; never imported."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import query
from xpubuild.errors import RecipeError, ToolchainError, UnsatisfiableError, did_you_mean
from xpubuild.safe_yaml import read_yaml

_DATA = Path(__file__).with_name("torch_names.yaml")
#: Modules whose names are all recorded, and the files that define them.
MODULES: Mapping[str, str] = {
    "torch.accelerator": "accelerator/__init__.py",
    "torch.amp": "amp/__init__.py",
    "torch.xpu": "xpu/__init__.py",
}
#: Names of other modules that the table of ``rules`` writes, and the files that may define them.
SINGLE: Mapping[str, tuple[str, ...]] = {
    "torch.get_device_module": ("__init__.py",),
    "torch.OutOfMemoryError": ("_C/__init__.pyi", "__init__.py"),
    "torch.distributed.get_default_backend_for_device": ("distributed/distributed_c10d.py",),
    "torch.distributed.is_xccl_available": ("distributed/distributed_c10d.py",),
    "torch.profiler.ProfilerActivity.XPU": ("_C/_profiler.pyi",),
    "torch.utils.cpp_extension.SyclExtension": ("utils/cpp_extension.py",),
}
_WHERE = "import importlib.util as u, sys; s = u.find_spec('torch'); sys.stdout.write(s.origin if s else '')"


def read_names(source: Callable[[str], str | None]) -> frozenset[str]:
    """Return the names that a torch has; ``source`` returns a file of its package, None if it has none."""
    found: set[str] = set()
    for module, file in MODULES.items():
        text = source(file)
        if text is not None:
            found |= {module, *(f"{module}.{name}" for name in _public(ast.parse(text)))}
    for name, files in SINGLE.items():
        last = name.rpartition(".")[2]
        trees = (ast.parse(text) for text in map(source, files) if text is not None)
        if any(last in _defined(node) for tree in trees for node in ast.walk(tree)):
            found.add(name)
    return frozenset(found)


def _public(tree: ast.Module) -> set[str]:
    """Return ``__all__`` where a module has it as a literal, else what it defines and imports by name."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=items)):
                return {item.value for item in items if isinstance(item, ast.Constant)}  # type: ignore[misc]
    return {name for node in tree.body for name in _defined(node) if not name.startswith("_")}


def _defined(node: ast.AST) -> Iterable[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return (name,)
        case ast.ImportFrom(names=names):
            return tuple(item.asname or item.name for item in names)
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return (name,)
    return ()


def releases() -> tuple[str, ...]:
    """Return the releases of the table, oldest first."""
    return tuple(_table()["releases"])


def of_release(release: str) -> frozenset[str]:
    """Return the names of a release, such as 2.8.

    Raises:
        UnsatisfiableError: the table has no such release.
    """
    table, known = _table(), releases()
    series = ".".join(release.split(".")[:2])
    if series not in known:
        raise UnsatisfiableError(
            f"the calls of torch {release} are not known{did_you_mean(release, known)}",
            why=f"xpubuild has tables for torch {known[0]} to {known[-1]}",
            fix="pass one of these, or the interpreter that has this torch",
            commands=(f"xpubuild migrate PATH --torch {known[-1]}", "xpubuild migrate PATH --python EXE"),
        )
    place = known.index(series)
    return frozenset(
        name for name, first, end in _rows(table) if known.index(first) <= place < _place(known, end)
    )


def first_release(name: str) -> str | None:
    """Return the first release that has a name; None if none has it."""
    return next((first for found, first, _ in _rows(_table()) if found == name), None)


def of_interpreter(python: str) -> tuple[str, frozenset[str]]:
    """Return the version and the names of the torch that an interpreter has.

    Raises:
        ToolchainError: it cannot be started, or has no torch.
    """
    env = base_environment() | {key: os.environ[key] for key in ("PYTHONPATH",) if key in os.environ}
    answer = query((python, "-c", _WHERE), env=env)
    folder = Path(answer.stdout.strip() or os.devnull).parent
    if answer.returncode != 0 or not (folder / "version.py").is_file():
        raise ToolchainError(
            f"{python} has no torch",
            why=answer.stderr.strip()[-300:] or "it finds no package of this name",
            fix="pass an interpreter that has it, or a release with --torch",
            commands=(f"xpubuild migrate PATH --torch {releases()[-1]}",),
        )

    def source(file: str) -> str | None:
        path = folder / file
        return path.read_text("utf-8") if path.is_file() else None

    for node in ast.parse((folder / "version.py").read_text("utf-8")).body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__version__")], value=ast.Constant(value=str(version))):
                return version, read_names(source)
    raise ToolchainError(f"the torch of {python} has no version", why=f"{folder / 'version.py'} has none")


def _rows(table: Mapping[str, Mapping[str, Mapping[str, str]]]) -> Iterator[tuple[str, str, str | None]]:
    """Yield the full name, the first release and the release that no longer has it."""
    gone: dict[str, str] = {name: end for end, names in table["gone"].items() for name in names.split()}  # type: ignore[attr-defined]
    for module, by_release in table["since"].items():
        for first, names in by_release.items():
            for name in names.split():
                full = module if name == "." else f"{module}.{name}"
                yield full, first, gone.get(full)


def _place(known: tuple[str, ...], end: str | None) -> int:
    return len(known) if end is None else known.index(end)


def _table() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    table = read_yaml(_DATA.read_text("utf-8"))
    if not isinstance(table, dict):
        raise RecipeError(f"{_DATA} is damaged", fix="install xpubuild again")
    return table
