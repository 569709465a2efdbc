"""Finds the existing workspace that a command works on."""

from __future__ import annotations

import contextlib
import os
import shlex
from pathlib import Path

from xpubuild.errors import ToolchainError, UsageError, did_you_mean

_JOURNAL = "journal.db"


def _name(recipe: str) -> str:
    """Return the name of a recipe; ``recipe`` may be a file."""
    from xpubuild.recipe.load import load

    return load(recipe).recipe.name if os.sep in recipe or recipe.endswith((".yaml", ".yml")) else recipe


def _existing(workspace: Path | None, recipe: str | None) -> Path:
    """Return the workspace by folder, the default one of a recipe, the active one, or the only one.

    Raises:
        UsageError: nothing was installed there, or there are several.
    """
    from xpubuild.install.options import default_workspace
    from xpubuild.ui.console import warn
    from xpubuild.workspace.activation import ENTERED
    from xpubuild.workspace.moved import made_in, origin, place_of

    entered = os.environ.get(ENTERED) if recipe is None else None
    if workspace is None and recipe is None and not entered:
        return _only_one()
    root = workspace or (Path(entered) if entered else default_workspace(_name(recipe or "")))
    if not _has_journal(root):
        beside = () if workspace or entered else root.parent.glob("*")
        known = sorted(path.name for path in beside if _has_journal(path))
        raise UsageError(
            f"there is no workspace at {root}",
            why=_why_not(root) + did_you_mean(root.name, known),
            fix="pass the folder of a workspace; 'xpubuild install' creates workspaces",
            commands=() if workspace else ("xpubuild status --all",),
        )
    root = place_of(root)
    if (old := made_in(root)) is not None:
        # Scripts of its environment may start the interpreter of the workspace that it was copied from.
        warn(origin(old))
    return root


def workspace_of(given: str | None, workspace: Path | None = None) -> Path:
    """Return the workspace that ``given`` names, which is its folder or the recipe that was built there.

    Raises:
        UsageError: nothing was installed there, or there are several.
    """
    is_file = given is not None and given.endswith((".yaml", ".yml"))
    if given and ((os.sep in given and not is_file) or Path(given, _JOURNAL).is_file()):
        return _existing(workspace or Path(given).expanduser().absolute(), None)
    return _existing(workspace, given)


def _has_journal(root: Path) -> bool:
    try:
        return (root / _JOURNAL).is_file()
    except PermissionError as error:
        raise ToolchainError(
            f"the workspace {root} cannot be entered",
            why=f"{error.filename}: {error.strerror}{_owner(root)}",
            fix="ask its owner to let you read it, or install a workspace of your own",
            commands=(f"ls -ld {shlex.quote(str(root))}",),
        ) from error


def _owner(root: Path) -> str:
    """Say whose the folder is that keeps others out."""
    for folder in (root, *root.parents):
        with contextlib.suppress(OSError, KeyError):
            return f"; {folder} belongs to {folder.owner()}"
    return ""


def _why_not(root: Path) -> str:
    if not root.exists():
        return "the folder does not exist"
    if not root.is_dir():
        return "it is not a folder"
    return f"the folder has no {_JOURNAL}, in which xpubuild records what it made"


def _only_one() -> Path:
    """Return the one workspace below the default folder; a guess among several could remove the wrong one."""
    from xpubuild.install.options import default_workspace
    from xpubuild.recipe.order import order_of

    folder = default_workspace("any").parent
    found = sorted(
        (path.parent for path in folder.glob(f"*/{_JOURNAL}")), key=lambda path: order_of(path.name)
    )
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"several workspaces exist: {', '.join(path.name for path in found)}",
            why=f"they are in {folder}, and neither a recipe nor a folder was passed",
            fix="name one: a recipe that has a workspace there, or the folder of the workspace",
        )
    raise UsageError(
        f"no workspace exists in {folder}",
        why="nothing was installed there",
        fix="pass the folder of a workspace; 'xpubuild install' creates workspaces",
        commands=("xpubuild install quickstart",),
    )
