"""The plan that the command line asks for: of recipe and options, or of a lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.engine.process import Cancel
from xpubuild.errors import RecipeError, UsageError
from xpubuild.frozen import frozen
from xpubuild.install.lock_file import is_lock
from xpubuild.install.options import PlanOptions
from xpubuild.install.prepare import Prepared, prepare
from xpubuild.recipe.load import load

if TYPE_CHECKING:
    from xpubuild.install import lock_model as model

_SUFFIX = ".lock.yaml"


@frozen
class LockOptions:
    """The lock options of the command line: ``--locked``, ``--lock FILE`` and how the machine is compared."""

    locked: bool = False
    file: Path | None = None
    policy: model.Policy = "compatible"


def prepare_as_asked(options: PlanOptions, lock: LockOptions, *, cancel: Cancel | None = None) -> Prepared:
    """Return the plan of recipe and options, or of a lock if one is requested or passed as the recipe.

    Raises:
        RecipeError: the lock is missing or is no lock.
        LockMismatchError: lock, recipe, options or machine do not agree; everything that differs is named.
        XpuBuildError: see ``gather.prepare``.
    """
    given = options.recipe
    named = given is not None and is_lock(given)
    if not (named or lock.locked or lock.file is not None):
        return prepare(options, cancel=cancel)
    # What only a lock takes is not imported without one.
    from xpubuild.install.locked_install import prepare_locked  # noqa: PLC0415

    if given is not None and named:
        if lock.file is not None:
            raise UsageError("two locks were passed", fix="pass the lock as RECIPE or with --lock, not both")
        return prepare_locked(replace(options, recipe=None), Path(given), lock.policy, cancel=cancel)
    path = lock.file or _beside_recipe(options)
    return prepare_locked(options, path, lock.policy, cancel=cancel)


def _beside_recipe(options: PlanOptions) -> Path:
    if options.recipe is None:
        raise UsageError(
            "--locked needs a recipe or a lock",
            fix=f"pass a recipe, to use RECIPE{_SUFFIX} in the current folder, or a lock with --lock FILE",
        )
    name = load(options.recipe).recipe.name
    path = Path(f"{name}{_SUFFIX}").absolute()
    if not path.is_file():
        raise RecipeError(
            f"the lock {path} does not exist",
            why="--locked uses RECIPE.lock.yaml in the current folder, unless --lock is passed",
            fix="create it, or pass another one with --lock FILE",
            commands=(f"xpubuild lock {options.recipe}",),
        )
    return path
