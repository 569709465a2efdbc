"""``clean``: removes only files that the journal lists as made in a workspace, and no local changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.engine import files
from xpubuild.engine.journal import Journal, relocated
from xpubuild.engine.lock import WorkspaceLock
from xpubuild.errors import SourceIntegrityError, UsageError
from xpubuild.frozen import frozen
from xpubuild.supply.git import notes
from xpubuild.supply.git.integrity import dirty_digest
from xpubuild.supply.git.untouched import is_untouched

if TYPE_CHECKING:
    from xpubuild.workspace.workspace_json import CleanDocument

_RUN_FILES = (
    "receipt.json", "resolved.json", "journal.db", "journal.db-wal", "journal.db-shm", ".lock.owner", ".lock",
)  # fmt: skip
_FOLDERS = ("wheels", "logs", "build", "src", "env")


@frozen
class Removal:
    """What will be (or was) removed, and what is kept because it holds the user's edits."""

    root: Path
    paths: tuple[Path, ...]
    steps: tuple[str, ...]
    kept: tuple[tuple[Path, str], ...]
    whole: bool
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
        UsageError: a step is named that never ran here.
    """
    with Journal(root / "journal.db", read_only=True) as journal:
        # Where the folder was moved, what it made is inside it all the same.
        place = journal.place() or str(root)
        made = {str(relocated(path, place, str(root))): step for path, step in journal.made().items()}
        known = {record.step for record in journal.records()}
    unknown = sorted(set(steps) - known)
    if unknown:
        raise UsageError(
            f"no step '{unknown[0]}' ran in {root}",
            why=f"known steps: {', '.join(sorted(known))}" if known else "no step has been completed there",
            fix="use one of them with --step" if known else "omit --step",
        )
    chosen = [Path(path) for path, step in made.items() if not steps or step in steps]
    paths: list[Path] = []
    kept: list[tuple[Path, str]] = []
    for path in chosen:
        reason = _keep(root, path)
        if reason:
            kept.append((path, reason))
        elif path.exists() or path.is_symlink():
            paths.append(path)
    within = {path: inner for inner, _ in kept for path in paths if path in inner.parents}
    kept += [(path, f"{inner} in it is kept") for path, inner in within.items()]
    paths = [path for path in paths if path not in within]
    return Removal(
        root=root,
        paths=_outermost(paths),
        steps=tuple(steps) or tuple(sorted(known)),
        kept=tuple(kept),
        whole=not steps,
    )


def _outermost(paths: Sequence[Path]) -> tuple[Path, ...]:
    every = set(paths)
    return tuple(sorted(path for path in every if not any(parent in every for parent in path.parents)))


def _keep(root: Path, path: Path) -> str:
    """Return why a path must stay, or nothing. Only what lies inside the workspace is ever removed."""
    resolved = path.parent.resolve() / path.name
    if root.resolve() not in resolved.parents:
        return "it is outside the workspace"
    if (path / ".git").exists():
        try:
            if dirty_digest(path) is not None:
                return "it has local changes"
            if _has_commits(path / ".git"):
                return "it has commits, branches or a stash that xpubuild did not make"
        except SourceIntegrityError as error:
            return "" if is_untouched(path) else error.what
    return ""


def _has_commits(git_dir: Path) -> bool:
    """Whether a checkout of ours has another HEAD than the pin, a branch or a stash.

    What xpubuild checks out has a detached HEAD and no branches. Whether a branch has anything new does not
    matter: to keep it costs nothing.
    """
    pin = notes.read_done(git_dir) if git_dir.is_dir() else None
    if pin is None:
        return False
    packed = git_dir / "packed-refs"
    refs = packed.read_text("utf-8", "replace") if packed.is_file() else ""
    return (
        (git_dir / "HEAD").read_text("utf-8", "replace").strip() != pin
        or (git_dir / "refs" / "stash").exists()
        or any(path.is_file() for path in (git_dir / "refs" / "heads").rglob("*"))
        or any(f" {name}" in refs for name in ("refs/stash", "refs/heads/"))
    )


def remove(root: Path, steps: Sequence[str] = ()) -> Removal:
    """Remove and forget; what is removed is decided with the workspace's lock held."""
    freed = 0
    with WorkspaceLock(root, command="xpubuild clean"):
        removal = plan_clean(root, steps)
        with Journal(root / "journal.db") as journal:
            for path in removal.paths:
                freed += _size(path)
                files.remove_tree(path)
            journal.forget(removal.steps)
        if removal.whole and not removal.kept:
            _remove_workspace(root)
    return replace(removal, freed_bytes=freed)


def _remove_workspace(root: Path) -> None:
    """Remove the rest of a workspace; where something of the user's is left, it stays a workspace."""
    for name in _FOLDERS:
        _prune(root / name)
    if {entry.name for entry in root.iterdir()} - set(_RUN_FILES):
        return
    for name in _RUN_FILES:
        (root / name).unlink(missing_ok=True)
    _remove_empty(root)


def _prune(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        for entry in folder.iterdir():
            _prune(entry)
        _remove_empty(folder)


def _remove_empty(folder: Path) -> None:
    # Something of the user's may lie there: then the folder stays.
    if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
        folder.rmdir()


def _size(path: Path) -> int:
    if path.is_symlink() or path.is_file():
        return path.lstat().st_size
    return sum(item.lstat().st_size for item in path.rglob("*") if not item.is_dir() or item.is_symlink())
