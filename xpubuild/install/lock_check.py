"""``check LOCK``: creates the lock again from recipe and sources, and lists every difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.process import Cancel
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import LockMismatchError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install import lock_model as model
from xpubuild.install.lock import make_lock
from xpubuild.install.lock_compare import Difference, differences, machine_differences
from xpubuild.install.lock_file import lock_digest
from xpubuild.install.locked_options import mismatch, options_of, other_tree, resolved_of, with_known_hashes
from xpubuild.install.open_wheels import open_hashes
from xpubuild.install.options import Options
from xpubuild.install.resolve import prepare
from xpubuild.install.supplies import git_store, keep_resolved
from xpubuild.install.target import Prepared
from xpubuild.recipe.load import load
from xpubuild.supply.git.git import Report
from xpubuild.workspace.layout import Layout

_TREE = ".tree"


@frozen
class Verdict:
    """The result of checking a lock. ``open`` lists wheels without a known hash."""

    lock: model.Lock
    policy: model.Policy
    differences: tuple[Difference, ...]
    open: tuple[str, ...]

    def document(self) -> dict[str, Any]:
        """Return the ``xpubuild.verify-lock/1`` document."""
        return {
            "schema": "xpubuild.verify-lock/1",
            "status": "differs" if self.differences else "ok",
            "recipe": self.lock.recipe.name,
            "lock": lock_digest(self.lock),
            "policy": self.policy,
            "differences": plain(self.differences),
            "open": list(self.open),
        }

    def error(self) -> XpuBuildError | None:
        """Return the failure that the differences mean, or None where there are none."""
        if not self.differences:
            return None
        trees = _other_trees(self.differences)
        if trees:
            first = trees[0]
            error: XpuBuildError = other_tree(self.lock, first.path, str(first.old), str(first.new))
        else:
            error = mismatch(self.lock, self.differences)
        error.document = self.document()
        return error


def _other_trees(found: Sequence[Difference]) -> list[Difference]:
    """Return the trees that differ although their commit is the one of the lock."""
    paths = {item.path for item in found}
    return [
        item
        for item in found
        if item.path.endswith(_TREE)
        and item.old is not None
        and item.new is not None
        and f"{item.path.removesuffix(_TREE)}.commit" not in paths
    ]


def check_lock(
    lock: model.Lock,
    *,
    policy: model.Policy,
    report: Report,
    recipe: str | None = None,
    over: Mapping[str, Any] | None = None,
    cancel: Cancel | None = None,
) -> Verdict:
    """Compare a lock with its recipe, the sources and this machine.

    ``recipe`` is the file of the recipe, where it is not in the search path; ``over`` are more fields of
    ``Options`` (mirror, offline, python, oneapi_root, extra_path, conda_lock and others).

    Raises:
        LockMismatchError: the recipe does not have what the lock names.
        UnsatisfiableError, ToolchainError: this machine cannot build it at all.
        FetchError, SourceIntegrityError: a source cannot be had, or is damaged.
    """
    more = {name: value for name, value in (over or {}).items() if value is not None}
    python = more.pop("python", None)
    options = replace(options_of(lock, recipe=recipe, python=python), **more)
    # A workspace of its own: the user's may follow a branch to another commit than the lock has.
    with scratch_folder("lock") as folder:
        prepared = _prepared(lock, replace(options, workspace=folder), cancel)
        store = git_store(prepared.target, cancel=cancel)
        hashes = open_hashes(prepared.target, report=report, cancel=cancel or Cancel())
        here = make_lock(prepared, store=store, report=report, wheel_hashes=hashes, cancel=cancel)
    here = with_known_hashes(lock, here)
    found = differences(lock, here) + machine_differences(lock.machine, here.machine, policy)
    open_ = tuple(wheel.component for wheel in lock.python.wheels if wheel.hashes is None)
    return Verdict(lock, policy, tuple(found), open_)


def _prepared(lock: model.Lock, options: Options, cancel: Cancel | None) -> Prepared:
    keep_resolved(
        Layout(options.workspace or Path()),
        resolved_of(lock, load(options.recipe or lock.recipe.name).recipe),
    )
    try:
        return prepare(options, cancel=cancel)
    except UsageError as error:
        raise LockMismatchError(
            "the recipe cannot be built as locked",
            why=f"{error.what}. {error.why}" if error.why else error.what,
            fix="use the recipe that the lock was created from, or create a new lock",
            commands=(f"xpubuild lock {lock.recipe.name}",),
        ) from error
