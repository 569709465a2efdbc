"""Tells damage from edits: a checkout in which nothing was written since xpubuild finished it.

A power cut or a failing disk takes content and leaves the times of files; whoever edits, adds, removes or
commits something changes the time of a file or a folder, which no program can set back (ctime).
"""

from __future__ import annotations

import os
from pathlib import Path

from xpubuild.source import notes

#: git writes it anew to look faster, and it holds nothing of its own but what was staged as objects.
_CACHES = frozenset({"index"})


def is_untouched(place: Path) -> bool:
    """Whether ``place`` is a checkout of ours, finished, and nothing in it was written after that."""
    git_dir = place / ".git"
    finished = notes.finished_ns(git_dir) if git_dir.is_dir() and not git_dir.is_symlink() else None
    if finished is None:
        return False
    # The folder is renamed after that, and the note itself changes the folder that it is in.
    return place.stat().st_mtime_ns <= finished and not any(
        os.lstat(path).st_ctime_ns > finished for path in _everything(place) if path != str(git_dir)
    )


def _everything(place: Path) -> list[str]:
    found = []
    for folder, folders, names in os.walk(place):
        inside_git = f"{folder}/".startswith(f"{place}/.git/")
        found += [f"{folder}/{name}" for name in folders]
        found += [f"{folder}/{name}" for name in names if not (inside_git and name in _CACHES)]
    return found
