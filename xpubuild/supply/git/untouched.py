"""Tells damage from edits: a checkout in which nothing was written since xpubuild finished it.

A power cut or a failing disk takes content and leaves the times of files; whoever edits, adds, removes or
commits something changes the time of a file or a folder, which no program can set back (ctime).
"""

from __future__ import annotations

import hashlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from xpubuild.supply.git import notes
from xpubuild.supply.git.worktree import find_git_dir

#: git rewrites it to look faster, and it holds nothing of its own but what was staged as objects.
_CACHES = frozenset({"index"})
# A file that changed shortly before it was looked at can change again within the same tick of the clock.
_SETTLED_NS = 2_000_000_000


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


def tree_stamp(place: Path, settled_ns: int = _SETTLED_NS) -> int | None:
    """Return one number for everything in a checkout, ``.git`` included: names, modes, sizes and times.

    The objects of its repositories are left out: they decide nothing that is checked out, and may be links.
    None where something changed less than ``settled_ns`` ago, cannot be looked at, or is of a repository
    that lies elsewhere.
    """
    total, newest = hashlib.sha256(), 0
    began = time.time_ns()
    try:
        for path, status in _looked_at(str(place)):
            if path.endswith("/.git") and stat.S_ISREG(status.st_mode) and not _is_inside(place, path):
                return None
            newest = max(newest, status.st_ctime_ns)
            mark = f"{path[len(str(place)) :]}\0{status.st_mode} {status.st_size} {status.st_ino}"
            mark += f" {status.st_mtime_ns} {status.st_ctime_ns}\0"
            total.update(mark.encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    return int.from_bytes(total.digest()[:7], "big") if newest < began - settled_ns else None


def _is_inside(place: Path, link: str) -> bool:
    """Whether a ``.git`` file names a repository below ``place``, as those of submodules do."""
    git_dir = find_git_dir(Path(link).parent)
    return git_dir is not None and git_dir.is_relative_to(place)


def _looked_at(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path below a folder and the folder itself, in one order, with what lstat says."""
    yield folder, os.lstat(folder)
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                if not (entry.name == "objects" and "/.git/" in f"{folder}/"):
                    yield from _looked_at(entry.path)
            else:
                yield entry.path, entry.stat(follow_symlinks=False)


def _everything(place: Path) -> list[str]:
    found = []
    for folder, folders, names in os.walk(place):
        inside_git = f"{folder}/".startswith(f"{place}/.git/")
        found += [f"{folder}/{name}" for name in folders]
        found += [f"{folder}/{name}" for name in names if not (inside_git and name in _CACHES)]
    return found
