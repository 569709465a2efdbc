"""Two small files in a checkout's ``.git``: what xpubuild checked out last, and a move that is under way."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.files import write_atomic

_DONE = "xpubuild-checkout.json"
_MOVE = "xpubuild-move.json"


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
