"""The PyTorch source tree of ``--source``, and what its scripts need."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from pathlib import Path

from .context import CheckFailedError, CheckSkippedError, SuiteContext


def tree(context: SuiteContext) -> Path:
    """Return the tree; without the option the check is skipped, a missing folder is a failure."""
    named = context.options.get("source")
    if not named:
        raise CheckSkippedError("needs a PyTorch source tree (--source)")
    root = Path(named)
    if not root.is_dir():
        raise CheckFailedError(f"the --source folder {root} does not exist")
    return root


def script(root: Path, name: str) -> Path:
    """Return a script of the tree. Fails if the tree has no such script."""
    path = root / name
    if not path.is_file():
        raise CheckFailedError(
            f"{root} contains no {name}: it is not a PyTorch source tree, or one of another release"
        )
    return path


def need_packages(what: str, names: Iterable[str]) -> None:
    """Fail with the names of the packages that a script imports and this environment lacks."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise CheckFailedError(f"{what} needs {', '.join(missing)}, which are not installed")


def names(context: SuiteContext, option: str, default: Iterable[str]) -> list[str]:
    """Return the names in an option, or the default."""
    given = context.options.get(option, "")
    return [name for name in given.split(",") if name] or list(default)
