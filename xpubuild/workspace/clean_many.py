"""``clean --older`` and ``clean --caches``: whole workspaces that nobody used, or the user's caches."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.engine.disk import disk_usage
from xpubuild.engine.files import remove_tree
from xpubuild.engine.lock import held_by
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.workspace.clean import remove
from xpubuild.workspace.overview import age_of, unused_since, workspaces_in

if TYPE_CHECKING:
    from xpubuild.workspace.overview_json import CleanManyDocument

#: What is kept below the user's cache, all of which can be fetched or made again.
CACHES = ("git", "archives", "conda", "mirrors", "oneapi")


@frozen
class Chosen:
    """Folders with their sizes, what is kept and why; ``caches`` says what they are."""

    folders: tuple[tuple[Path, int], ...]
    kept: tuple[str, ...] = ()
    caches: bool = False

    def to_json(self, *, dry_run: bool) -> CleanManyDocument:
        """Return the ``xpubuild.clean-many/1`` document."""
        return {
            "schema": "xpubuild.clean-many/1",
            "dry_run": dry_run,
            "removed": [{"path": str(path), "size_bytes": size} for path, size in self.folders],
            "kept": list(self.kept),
        }

    def refused(self) -> Chosen:
        """Return that nothing was removed, because somebody said no."""
        return replace(self, folders=(), kept=tuple(f"{path}: not wanted" for path, _ in self.folders))


def choose(workspaces: Path, cache: Path, older: str | None) -> Chosen:
    """Return what would go: workspaces unused for an age, or, without one, the caches.

    Raises:
        UsageError: it is no age.
    """
    if older is not None:
        moment = time.time() - age_of(older).total_seconds()
        roots = unused_since(workspaces, moment)
        return Chosen(tuple((root, disk_usage(root)) for root in roots))
    busy = [root for root in workspaces_in(workspaces) if held_by(root)]
    found = [path for name in CACHES if (path := cache / name).is_dir() and not path.is_symlink()]
    if busy:
        return Chosen((), tuple(f"{path}: {busy[0]} is in use" for path in found), caches=True)
    return Chosen(tuple((path, disk_usage(path)) for path in found), caches=True)


def remove_all(chosen: Chosen) -> Chosen:
    """Remove what was chosen. Edits in the sources of a workspace stay, and so does what others use now."""
    gone, kept = [], list(chosen.kept)
    for path, size in chosen.folders:
        try:
            if chosen.caches:
                remove_tree(path)
            else:
                kept += [f"{place}: {why}" for place, why in remove(path).kept]
        except XpuBuildError as error:
            kept.append(f"{path}: {error.what}")
        else:
            gone.append((path, size))
    return replace(chosen, folders=tuple(gone), kept=tuple(kept))
