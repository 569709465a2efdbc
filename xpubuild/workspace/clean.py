"""``clean``: removes what the journal lists as made in a workspace, or the caches.

Local changes stay, and so does everything that xpubuild did not make.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.engine.files import remove_tree
from xpubuild.engine.journal import Journal
from xpubuild.engine.lock import held_by, workspace_lock
from xpubuild.errors import SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.supply.git.git import Git
from xpubuild.supply.git.own_tree import is_copy, own_tree
from xpubuild.supply.git.worktree import is_untouched, read_done
from xpubuild.workspace.layout import RUN_FILES, Layout, workspaces_in
from xpubuild.workspace.moved import require_in_place
from xpubuild.workspace.overview import disk_usage

_FOLDERS = ("wheels", "logs", "build", "src", "env")
#: What is kept below the user's cache, all of which can be fetched or made again.
_CACHES = ("git", "archives", "conda", "mirrors", "oneapi")


class KeptPath(TypedDict):
    """A path that clean leaves alone."""

    path: str
    why: str


class CleanDocument(TypedDict):
    """What clean removed, or would remove."""

    schema: Literal["xpubuild.clean/1"]
    """Name and version."""
    workspace: str
    """With --caches, the folder that they are in."""
    dry_run: bool
    removed: list[str]
    steps: list[str]
    kept: list[KeptPath]
    freed_bytes: int
    """0 with --dry-run."""
    cache: NotRequired[str]
    """The folder that keeps sources, packages and wheels for other builds; clean leaves it."""
    cache_bytes: NotRequired[int]


def _removal(
    root: Path, paths: Iterable[Path], steps: Iterable[str] = (), kept: Iterable[tuple[Path, str]] = ()
) -> CleanDocument:
    return {
        "schema": "xpubuild.clean/1", "workspace": str(root), "dry_run": True, "removed": [*map(str, paths)],
        "steps": [*steps], "kept": [{"path": str(path), "why": why} for path, why in kept], "freed_bytes": 0,
    }  # fmt: skip


def plan_clean(root: Path, steps: Sequence[str] = ()) -> CleanDocument:
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
        why = f"known steps: {', '.join(known)}" if known else "no step has been completed there"
        fix = "use one of them with --step" if known else "omit --step"
        raise UsageError(f"no step '{unknown[0]}' ran in {root}", why=why, fix=fix)
    chosen = [path for path, step in made.items() if not steps or step in steps]
    kept = [(path, why) for path in chosen if (why := _keep(root, path))]
    paths = {path for path in chosen if os.path.lexists(path)} - {path for path, _ in kept}
    within = {path: inner for inner, _ in kept for path in paths if path in inner.parents}
    kept += [(path, f"{inner} in it is kept") for path, inner in within.items()]
    paths -= within.keys()
    outermost = sorted(path for path in paths if not any(parent in paths for parent in path.parents))
    return _removal(root, outermost, steps or known, kept)


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


def remove(root: Path, steps: Sequence[str] = ()) -> CleanDocument:
    """Remove and forget; what is removed is decided with the workspace's lock held."""
    with workspace_lock(root, command="xpubuild clean"):
        planned = plan_clean(root, steps)
        paths = [*map(Path, planned["removed"])]
        freed = disk_usage(*paths)
        with Journal(Layout(root).journal) as journal:
            for path in paths:
                remove_tree(path)
            journal.forget(planned["steps"])
        if not steps and not planned["kept"]:
            _remove_workspace(root)
    return {**planned, "freed_bytes": freed}


def _remove_workspace(root: Path) -> None:
    """Remove the rest of a workspace; where something of the user's is left, it stays a workspace."""
    for name in _FOLDERS:
        if not (root / name).is_symlink():
            for folder, _, _ in os.walk(root / name, topdown=False):
                with contextlib.suppress(OSError):  # something of the user's may lie there
                    Path(folder).rmdir()
    if {entry.name for entry in root.iterdir()} <= set(RUN_FILES):
        for name in RUN_FILES:
            (root / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            root.rmdir()


def plan_caches(workspaces: Path, cache: Path) -> CleanDocument:
    """Return which caches would go; none while one of the ``workspaces`` is in use."""
    found = [path for name in _CACHES if (path := cache / name).is_dir() and not path.is_symlink()]
    busy = next((root for root in workspaces_in(workspaces) if held_by(root)), None)
    if busy is not None:
        return _removal(cache, (), kept=[(path, f"{busy} is in use") for path in found])
    return _removal(cache, found)


def remove_caches(planned: CleanDocument) -> CleanDocument:
    """Remove what was planned; what cannot be removed is kept."""
    done: CleanDocument = {**planned, "removed": [], "kept": [*planned["kept"]]}
    for path in planned["removed"]:
        size = disk_usage(Path(path))
        try:
            remove_tree(Path(path))
        except XpuBuildError as error:
            done["kept"].append({"path": path, "why": error.what})
        else:
            done["removed"].append(path)
            done["freed_bytes"] += size
    return done
