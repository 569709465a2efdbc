"""Which workspace a command means, where it takes one that already is."""

from __future__ import annotations

import os
from pathlib import Path

from xpubuild.errors import UsageError


def _name(recipe: str) -> str:
    """Return the name of a recipe that may be given as a file."""
    from xpubuild.recipe.load import load

    return load(recipe).recipe.name if os.sep in recipe or recipe.endswith((".yaml", ".yml")) else recipe


def existing(workspace: Path | None, recipe: str | None) -> Path:
    """Return the workspace by folder, or the default one of a recipe.

    Raises:
        UsageError: nothing was installed there.
    """
    from xpubuild.build.activation import ENTERED
    from xpubuild.build.gather import default_workspace

    entered = os.environ.get(ENTERED) if recipe is None else None
    root = workspace or (Path(entered) if entered else default_workspace(_name(recipe or "quickstart")))
    if not (root / "journal.db").is_file():
        raise UsageError(
            f"there is no workspace at {root}",
            why="it holds no journal: nothing was installed there",
            fix="install first, or name the folder with --workspace",
            commands=(f"xpubuild install {recipe or 'quickstart'}",),
        )
    return root
