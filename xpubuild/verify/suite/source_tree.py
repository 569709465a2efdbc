"""The tree of PyTorch that ``--source`` names, and what it lacks for a script of its own."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from .context import CheckFailedError, CheckSkippedError, Context


def tree(context: Context) -> Path:
    """Return the tree; that none is named is a skip, that there is none of that name a failure."""
    named = context.options.get("source")
    if not named:
        raise CheckSkippedError("no source tree of PyTorch: --source names one")
    root = Path(named)
    if not root.is_dir():
        raise CheckFailedError(f"there is no folder {root}, which --source names")
    return root


def script(root: Path, name: str) -> Path:
    """Return a script of the tree. Fails where the tree has none of that name."""
    path = root / name
    if not path.is_file():
        raise CheckFailedError(f"{root} holds no {name}: it is no tree of PyTorch, or of another release")
    return path


def need_packages(what: str, names: Iterable[str]) -> None:
    """Fail with the names of the packages that a script imports and this environment lacks."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise CheckFailedError(f"{what} needs {', '.join(missing)}, not installed beside this torch")


def names(context: Context, option: str, default: Iterable[str]) -> list[str]:
    """Return the names that an option holds, or the default."""
    given = context.options.get(option, "")
    return [name for name in given.split(",") if name] or list(default)
