"""Which workspace a command means, where it takes one that already is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from xpubuild.errors import UsageError

_JOURNAL = "journal.db"


def _name(recipe: str) -> str:
    """Return the name of a recipe that may be given as a file."""
    from xpubuild.recipe.load import load

    return load(recipe).recipe.name if os.sep in recipe or recipe.endswith((".yaml", ".yml")) else recipe


def existing(workspace: Path | None, recipe: str | None) -> Path:
    """Return the workspace by folder, the default one of a recipe, the entered one, or the only one there is.

    Raises:
        UsageError: nothing was installed there, or there are several.
    """
    from xpubuild.build.activation import ENTERED
    from xpubuild.build.gather import default_workspace
    from xpubuild.build.moved import found_at, place_of

    entered = os.environ.get(ENTERED) if recipe is None else None
    if workspace is None and recipe is None and not entered:
        return _only_one()
    root = workspace or (Path(entered) if entered else default_workspace(_name(recipe or "")))
    if not (root / _JOURNAL).is_file():
        raise UsageError(
            f"there is no workspace at {root}",
            why="it holds no journal: nothing was installed there",
            fix="install first, or name the folder with --workspace",
            commands=(f"xpubuild install {recipe or 'quickstart'}",),
        )
    root = place_of(root)
    found = found_at(root)
    if found is not None:
        # Scripts of its environment may start the interpreter of the workspace that it was copied from.
        sys.stderr.write(f"warning: {found.told()}\n")
    return root


def _only_one() -> Path:
    """Return the one workspace below the default folder; a guess among several could remove the wrong one."""
    from xpubuild.build.gather import default_workspace
    from xpubuild.recipe.order import order_of

    folder = default_workspace("any").parent
    found = sorted(
        (path.parent for path in folder.glob(f"*/{_JOURNAL}")), key=lambda path: order_of(path.name)
    )
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            "which workspace is meant?",
            why=f"there are {len(found)} in {folder}: {', '.join(path.name for path in found)}",
            fix="name the recipe, or the folder with --workspace",
        )
    raise UsageError(
        f"there is no workspace in {folder}",
        why="nothing was installed there",
        fix="install first, or name a folder with --workspace",
        commands=("xpubuild install quickstart",),
    )
