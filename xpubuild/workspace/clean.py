"""``clean``: removes what the journal lists as made in a workspace, or the caches.

Local changes stay, and so does everything that xpubuild did not make.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.engine.files import remove_tree
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import held_by, workspace_lock
from xpubuild.errors import SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.own_tree import is_copy, own_tree
from xpubuild.supply.git.worktree import is_untouched, read_done
from xpubuild.workspace.layout import Layout, workspaces_in
from xpubuild.workspace.moved import require_in_place
from xpubuild.workspace.overview import disk_usage

if TYPE_CHECKING:
    from xpubuild.workspace.workspace_json import CleanDocument

_RUN_FILES = (
    "receipt.json", "resolved.json", "journal.db", "journal.db-wal", "journal.db-shm", ".lock.owner", ".lock",
)  # fmt: skip
_FOLDERS = ("wheels", "logs", "build", "src", "env")
#: What is kept below the user's cache, all of which can be fetched or made again.
_CACHES = ("git", "archives", "conda", "mirrors", "oneapi")


@frozen
class Removal:
    """What will be (or was) removed of a workspace or the caches, and what is kept, with the reason."""

    root: Path
    paths: tuple[Path, ...]
    steps: tuple[str, ...]
    kept: tuple[tuple[Path, str], ...]
    freed_bytes: int = 0

    def to_json(self, *, dry_run: bool) -> CleanDocument:
        """Return the ``xpubuild.clean/1`` document."""
        return {
            "schema": "xpubuild.clean/1",
            "workspace": str(self.root),
            "dry_run": dry_run,
            "removed": [str(path) for path in self.paths],
            "steps": list(self.steps),
            "kept": [{"path": str(path), "why": why} for path, why in self.kept],
            "freed_bytes": self.freed_bytes,
        }


def plan_clean(root: Path, steps: Sequence[str] = ()) -> Removal:
    """Return what ``clean`` would remove.

    Raises:
        UsageError: a step is named that never ran here, or the workspace was moved.
    """
    with Journal(Layout(root).journal, read_only=True) as journal:
        require_in_place(root, journal)
        made = {Path(path): step for path, step in journal.made().items()}
        known = sorted(record.step for record in journal.records())
    unknown = sorted(set(steps) - set(known))
    if unknown:
        raise UsageError(
            f"no step '{unknown[0]}' ran in {root}",
            why=f"known steps: {', '.join(known)}" if known else "no step has been completed there",
            fix="use one of them with --step" if known else "omit --step",
        )
    chosen = [path for path, step in made.items() if not steps or step in steps]
    kept = [(path, why) for path in chosen if (why := _keep(root, path))]
    paths = {path for path in chosen if os.path.lexists(path)} - {path for path, _ in kept}
    within = {path: inner for inner, _ in kept for path in paths if path in inner.parents}
    kept += [(path, f"{inner} in it is kept") for path, inner in within.items()]
    paths -= within.keys()
    outermost = sorted(path for path in paths if not any(parent in paths for parent in path.parents))
    return Removal(root, tuple(outermost), tuple(steps) or tuple(known), tuple(kept))


def _keep(root: Path, path: Path) -> str:
    """Return why a path must stay, or nothing. Only what lies inside the workspace is ever removed."""
    resolved = path.parent.resolve() / path.name
    if root.resolve() not in resolved.parents:
        return "it is outside the workspace"
    if (path / ".git").exists() and not is_copy(path):
        try:
            if own_tree(path, git=Git.open()) is not None:
                return "it has local changes"
            if _has_commits(path):
                return "it has commits, branches or a stash that xpubuild did not make"
        except SourceIntegrityError as error:
            return "" if is_untouched(path) else error.what
    return ""


def _has_commits(checkout: Path) -> bool:
    """Whether a checkout of xpubuild has another HEAD than the pin, a branch or a stash.

    What xpubuild checks out has a detached HEAD and no branches. Whether a branch has anything new does not
    matter: to keep it costs nothing.
    """
    git_dir = checkout / ".git"
    pin = read_done(git_dir) if git_dir.is_dir() else None
    if pin is None:
        return False
    git = Git.open()
    head = git.query(["rev-parse", "HEAD"], git_dir=git_dir)
    refs = git.query(["for-each-ref", "refs/heads", "refs/stash"], git_dir=git_dir)
    return head.text != pin or not refs.ok or bool(refs.text)


def remove(root: Path, steps: Sequence[str] = ()) -> Removal:
    """Remove and forget; what is removed is decided with the workspace's lock held."""
    with workspace_lock(root, command="xpubuild clean"):
        removal = plan_clean(root, steps)
        freed = disk_usage(*removal.paths)
        with Journal(Layout(root).journal) as journal:
            for path in removal.paths:
                remove_tree(path)
            journal.forget(removal.steps)
        if not steps and not removal.kept:
            _remove_workspace(root)
    return replace(removal, freed_bytes=freed)


def _remove_workspace(root: Path) -> None:
    """Remove the rest of a workspace; where something of the user's is left, it stays a workspace."""
    for name in _FOLDERS:
        if not (root / name).is_symlink():
            for folder, _, _ in os.walk(root / name, topdown=False):
                with contextlib.suppress(OSError):  # something of the user's may lie there
                    Path(folder).rmdir()
    if {entry.name for entry in root.iterdir()} <= set(_RUN_FILES):
        for name in _RUN_FILES:
            (root / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            root.rmdir()


def plan_caches(workspaces: Path, cache: Path) -> Removal:
    """Return which caches would go; none while one of the ``workspaces`` is in use."""
    found = [path for name in _CACHES if (path := cache / name).is_dir() and not path.is_symlink()]
    busy = next((root for root in workspaces_in(workspaces) if held_by(root)), None)
    if busy is not None:
        return Removal(cache, (), (), tuple((path, f"{busy} is in use") for path in found))
    return Removal(cache, tuple(found), (), ())


def remove_caches(chosen: Removal) -> Removal:
    """Remove what was chosen; what cannot be removed is kept."""
    gone, kept, freed = [], [*chosen.kept], 0
    for path in chosen.paths:
        size = disk_usage(path)
        try:
            remove_tree(path)
        except XpuBuildError as error:
            kept.append((path, error.what))
        else:
            gone.append(path)
            freed += size
    return replace(chosen, paths=tuple(gone), kept=tuple(kept), freed_bytes=freed)
