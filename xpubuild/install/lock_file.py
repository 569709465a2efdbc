"""``lock``: writes the lock of a plan and reports the differences to the existing one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xpubuild.documents import plain
from xpubuild.engine.files import write_atomic
from xpubuild.errors import LockMismatchError, RecipeError, UsageError
from xpubuild.frozen import frozen
from xpubuild.install import lock_model as model
from xpubuild.install.lock import read_lock
from xpubuild.install.lock_canonical import dump, lock_digest, machine_digest
from xpubuild.install.lock_compare import Difference, differences
from xpubuild.install.locked_machine import machine_differences


@frozen
class Written:
    """A lock and its file; ``problem`` is what was wrong with the existing file."""

    lock: model.Lock
    path: Path | None
    changed: bool
    differences: tuple[Difference, ...] = ()
    problem: str = ""

    def document(self) -> dict[str, Any]:
        """Return the ``xpubuild.written-lock/1`` document."""
        lock = self.lock
        return {
            "schema": "xpubuild.written-lock/1",
            "recipe": lock.recipe.name,
            "file": str(self.path) if self.path is not None else None,
            "lock": lock_digest(lock),
            "machine": machine_digest(lock),
            "repositories": sum(map(_count, lock.repositories.values())),
            "archives": len(lock.archives),
            "pins": sum(len(file.pins) for file in lock.python.requirements.values()),
            "open": [
                {"component": wheel.component, "dist": wheel.dist, "version": wheel.version}
                for wheel in lock.python.wheels
                if wheel.hashes is None
            ],
            "changed": self.changed,
            "differences": plain(self.differences),
        }


def _count(repository: model.Repository) -> int:
    below = sum(1 + len(item.submodules) for item in repository.configure_time)
    return 1 + len(repository.submodules) + below


def write_lock(lock: model.Lock, path: Path) -> Written:
    """Write a lock; readers see the old file or the new one, and the same lock is not written again.

    Raises:
        UsageError: there is no such folder.
        NoSpaceError, ToolchainError: it cannot be written.
    """
    if not path.parent.is_dir():
        raise UsageError(
            f"the lock cannot be written to {path}",
            why=f"the folder {path.parent} does not exist",
            fix="use another --output, or create the folder",
        )
    old, problem = _before(path)
    if old == lock:
        return Written(lock, path, changed=False)
    found: list[Difference] = []
    if old is not None:
        found = differences(old, lock) + machine_differences(old.machine, lock.machine, "exact")
    write_atomic(path, dump(lock).encode("ascii"))
    return Written(lock, path, True, tuple(found), problem)


def _before(path: Path) -> tuple[model.Lock | None, str]:
    if not path.exists():
        return None, ""
    try:
        return read_lock(path), ""
    except (RecipeError, LockMismatchError) as error:
        return None, f"{error.what}: {error.why}"
