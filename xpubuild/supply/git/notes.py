"""What xpubuild notes in a checkout's ``.git`` (the commit it checked out, a move under way), and whether
anything was written since.

A power cut or a failing disk takes content and leaves the times of files; whoever edits, adds, removes or
commits something changes the time of a file or a folder, which no program can set back (ctime).
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from xpubuild.engine.files import write_atomic
from xpubuild.supply.git.worktree import find_git_dir

_DONE, _MOVE = "xpubuild-checkout.json", "xpubuild-move.json"
# A file that changed shortly before it was looked at can change again within the same tick of the clock.
_SETTLED_NS = 2_000_000_000


def read_done(git_dir: Path) -> str | None:
    """Return the commit that xpubuild checked out last; None where it did not make this checkout."""
    commit = _read(git_dir / _DONE).get("commit")
    return commit if isinstance(commit, str) else None


def finished_ns(git_dir: Path) -> int | None:
    """Return when the checkout was finished (ns); None where it is not ours, or being moved."""
    if read_done(git_dir) is None or (git_dir / _MOVE).exists():
        return None
    return (git_dir / _DONE).lstat().st_ctime_ns


def write_done(git_dir: Path, commit: str) -> None:
    """Note a finished checkout; the move is over."""
    write_atomic(git_dir / _DONE, json.dumps({"commit": commit}).encode())
    (git_dir / _MOVE).unlink(missing_ok=True)


def read_move(git_dir: Path) -> dict[str, set[str]] | None:
    """Return path -> commits that a half-done move may have left there; None where no move is noted."""
    if not (git_dir / _MOVE).exists():
        return None
    commits = _read(git_dir / _MOVE).get("commits")
    return {str(path): set(ids) for path, ids in commits.items()} if isinstance(commits, dict) else {}


def write_move(git_dir: Path, commits: Mapping[str, set[str]]) -> None:
    """Note, before the first file changes, between which commits the repositories are being moved."""
    document = {"commits": {path: sorted(ids) for path, ids in sorted(commits.items())}}
    write_atomic(git_dir / _MOVE, json.dumps(document, indent=1).encode())


def _read(path: Path) -> dict[str, object]:
    try:
        document = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}


def is_untouched(place: Path) -> bool:
    """Whether ``place`` is a checkout of ours, finished, and nothing in it was written after that."""
    git_dir = place / ".git"
    finished = finished_ns(git_dir) if git_dir.is_dir() and not git_dir.is_symlink() else None
    # The folder is renamed after that, and the note itself changes the folder that it is in. git rewrites an
    # index to look faster; it has nothing of its own but what was staged as objects.
    if finished is None or place.stat().st_mtime_ns > finished:
        return False
    return all(
        status.st_ctime_ns <= finished or (path.startswith(f"{git_dir}/") and path.endswith("/index"))
        for path, status in _below(str(place))
        if path != str(git_dir)
    )


def tree_stamp(place: Path, settled_ns: int = _SETTLED_NS) -> int | None:
    """Return one number for everything in a checkout, ``.git`` included: names, modes, sizes and times.

    The objects of its repositories are left out: they decide nothing that is checked out, and may be links.
    None where something changed less than ``settled_ns`` ago, cannot be looked at, or is of a repository
    that lies elsewhere.
    """
    total, newest, began = hashlib.sha256(), 0, time.time_ns()
    try:
        for path, status in ((str(place), os.lstat(place)), *_below(str(place), objects=False)):
            if path.endswith("/.git") and stat.S_ISREG(status.st_mode):
                git_dir = find_git_dir(Path(path).parent)
                if git_dir is None or not git_dir.is_relative_to(place):
                    return None
            newest = max(newest, status.st_ctime_ns)
            mark = f"{path[len(str(place)) :]}\0{status.st_mode} {status.st_size} {status.st_ino}"
            mark += f" {status.st_mtime_ns} {status.st_ctime_ns}\0"
            total.update(mark.encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    return int.from_bytes(total.digest()[:7], "big") if newest < began - settled_ns else None


def _below(folder: str, *, objects: bool = True) -> Iterator[tuple[str, os.stat_result]]:
    """Yield every path below a folder, in one order, with what lstat says."""
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if not objects and entry.name == "objects" and "/.git/" in f"{folder}/":
                continue
            yield entry.path, entry.stat(follow_symlinks=False)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(entry.path, objects=objects)
