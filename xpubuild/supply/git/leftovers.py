"""Removes leftover files of a killed git: lock files and partly written objects."""

from __future__ import annotations

import contextlib
from pathlib import Path

_LOCKS = ("*.lock", "refs/**/*.lock")
_HALF_WRITTEN = (
    "objects/pack/tmp_*",
    "objects/pack/.tmp-*",
    "objects/??/tmp_obj_*",
    "objects/tmp_objdir-*/**/*",
)


def remove_leftovers(git_dir: Path) -> None:
    """Remove a killed git's lock files and temporary objects.

    Only for a repository that nobody else can be writing to: the caller holds the lock that every xpubuild
    process takes, and that its gits keep while they live.
    """
    for pattern in (*_LOCKS, *_HALF_WRITTEN):
        for path in git_dir.glob(pattern):
            with contextlib.suppress(IsADirectoryError, FileNotFoundError):
                path.unlink()
