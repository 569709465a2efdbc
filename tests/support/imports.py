"""What modules import, read from their syntax trees: imports inside functions count too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGE = ROOT / "xpubuild"
#: Sources of the embedded extension are data to xpubuild.
_DATA = PACKAGE / "ops" / "project"


@dataclass(frozen=True)
class Import:
    """``module`` imports ``target``, both absolute; ``typing`` marks those of TYPE_CHECKING blocks."""

    module: str
    target: str
    line: int
    typing: bool = False

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"

    def of(self, *packages: str) -> bool:
        return any(self.target == name or self.target.startswith(f"{name}.") for name in packages)

    def inside(self, *packages: str) -> bool:
        return any(self.module == name or self.module.startswith(f"{name}.") for name in packages)


def sources() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py") if _DATA not in path.parents)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def all_imports() -> list[Import]:
    return [found for path in sources() for found in imports_of(module_name(path), path)]


def imports_of(module: str, path: Path) -> Iterator[Import]:
    tree = ast.parse(path.read_text("utf-8"))
    typing_lines = {
        inner.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
        if isinstance(inner, (ast.Import, ast.ImportFrom))
    }
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            targets = _from(node, package)
        else:
            continue
        for target in targets:
            yield Import(module, target, node.lineno, node.lineno in typing_lines)


def _from(node: ast.ImportFrom, package: str) -> list[str]:
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, *([node.module] if node.module else [])])
    # "from xpubuild.engine import files" imports the module xpubuild.engine.files.
    folder = ROOT.joinpath(*base.split("."))
    return [
        f"{base}.{alias.name}"
        if (folder / f"{alias.name}.py").exists() or (folder / alias.name).is_dir()
        else base
        for alias in node.names
    ]
