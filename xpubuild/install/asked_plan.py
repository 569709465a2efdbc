"""The plan that the command line asks for: of recipe and options, or of a lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from xpubuild.engine.process import Cancel
from xpubuild.errors import RecipeError, UsageError
from xpubuild.install.options import LockOptions, Options, is_lock
from xpubuild.install.resolve import prepare
from xpubuild.install.target import Prepared
from xpubuild.recipe.load import load

_LOCK = ".lock.yaml"


def prepare_as_asked(options: Options, lock: LockOptions, *, cancel: Cancel | None = None) -> Prepared:
    """Return the plan of recipe and options, or of a lock if one is requested or passed as the recipe.

    Raises:
        RecipeError: the lock is missing or is no lock.
        LockMismatchError: lock, recipe, options or machine do not agree; everything that differs is named.
        XpuBuildError: see ``prepare``.
    """
    given = options.recipe if options.recipe is not None and is_lock(options.recipe) else None
    if given is None and not lock.locked and lock.file is None:
        return prepare(options, cancel=cancel)
    if given is not None and lock.file is not None:
        raise UsageError("two locks were passed", fix="pass the lock as RECIPE or with --lock, not both")
    # What only a lock takes is not imported without one.
    from xpubuild.install.lock_check import prepare_locked  # noqa: PLC0415

    path = lock.file or (Path(given) if given else _lock_beside(options))
    recipe = None if given else options.recipe
    return prepare_locked(replace(options, recipe=recipe), path, lock.policy, cancel=cancel)


def _lock_beside(options: Options) -> Path:
    if options.recipe is None:
        raise UsageError(
            "--locked needs a recipe or a lock",
            fix=f"pass a recipe, to use RECIPE{_LOCK} in the current folder, or a lock with --lock FILE",
        )
    path = Path(f"{load(options.recipe).recipe.name}{_LOCK}").absolute()
    if not path.is_file():
        raise RecipeError(
            f"the lock {path} does not exist",
            why="--locked uses RECIPE.lock.yaml in the current folder, unless --lock is passed",
            fix="create it, or pass another one with --lock FILE",
            commands=(f"xpubuild lock {options.recipe}",),
        )
    return path
