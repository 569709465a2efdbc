"""Handles a workspace that was moved or copied: reports it, and uses nothing of the old folder.

Scripts of an environment, build trees of CMake and fingerprints hold absolute paths, so what was built before
the move is built again. What must not happen meanwhile: that an environment is taken as ready whose scripts
start the interpreter of another folder, that CMake goes on in a tree of another place, or that, in a copy,
files of the workspace that it was copied from are taken for its own and removed.
"""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path
from typing import Literal

from xpubuild.engine import files
from xpubuild.engine.journal import Journal, relocated
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.envmark import read_mark, write_mark
from xpubuild.workspace.layout import Layout

_CACHE = "CMakeCache.txt"
#: What else CMake keeps beside its cache, and makes again.
_CMAKES_OWN = "CMakeFiles"
_HOME = "CMAKE_HOME_DIRECTORY:INTERNAL="
Kind = Literal["moved", "copied", "renamed"]


@frozen
class Moved:
    """Where a workspace was made, and where it is now.

    ``copied``: the old place still holds a workspace. ``renamed``: both names lead to one folder, which
    ``place_of`` settles before anything else looks at it.
    """

    old: Path
    new: Path
    kind: Kind

    def told(self, *, settled: bool = False) -> str:
        """Say what happened, what follows from it, and how it can be undone; ``settled``: no more."""
        again = "its environment and build trees contain that path, so everything is rebuilt here"
        if self.kind == "copied":
            return f"this workspace is a copy of {self.old}: {again}; {self.old} itself is not touched"
        happened = f"this workspace was moved from {self.old} to {self.new}: {again}"
        if settled:
            return happened
        back = shlex.join(["mv", str(self.new), str(self.old)])
        return f"{happened}; to avoid this, move it back before you install anything: {back}"


def moved(root: Path, journal: Journal | None) -> Moved | None:
    """Return from where a workspace came; None where it is in its place, or where that is not known."""
    place = journal.place() if journal is not None else None
    if place is None or place == str(root):
        return None
    old = Path(place)
    # Where the old place may not be looked into, nobody can go on there: as if it were gone.
    with contextlib.suppress(OSError):
        if (old / Layout(root).journal.name).is_file():
            return Moved(old, root, "renamed" if old.samefile(root) else "copied")
    return Moved(old, root, "moved")


def place_of(root: Path) -> Path:
    """Return a workspace by the name that it was made under, where ``root`` is another name of its folder.

    Environment and build trees hold that name; under it, all that was built counts.
    """
    found = found_at(root)
    return found.old if found is not None and found.kind == "renamed" else root


def found_at(root: Path) -> Moved | None:
    """Return from where a workspace came, by its journal; None where there is none that can be read."""
    path = Layout(root).journal
    # Who opens the journal for more than this says what is wrong with it.
    with contextlib.suppress(OSError, ToolchainError):
        if path.is_file():
            with contextlib.closing(Journal(path, read_only=True)) as journal:
                return moved(root, journal)
    return None


def settle_here(root: Path, journal: Journal) -> Moved | None:
    """Make the place of a workspace its own, with its lock held; return from where it came.

    Raises:
        NoSpaceError, ToolchainError: what is of no use any more cannot be removed.
    """
    found = moved(root, journal)
    if found is None:
        journal.settle_at(str(root))
        return None
    layout = Layout(root)
    if read_mark(layout.env) is not None:
        # Not ready in this place, and ours: it is made again.
        write_mark(layout.env, {"state": "moved", "from": str(found.old)})
    for made in journal.made():
        path = Path(relocated(made, str(found.old), str(root)))
        if layout.build in (path, *path.parents) and _is_own(root, path):
            files.remove_tree(path)
    for cache in _caches_of_cmake(layout.src, found.old):
        if _is_own(root, cache):
            files.remove_tree(cache.with_name(_CMAKES_OWN))
            cache.unlink()
    journal.move(str(found.old), str(root))
    return found


def _is_own(root: Path, path: Path) -> bool:
    """Whether a path lies in the workspace, all links followed: what a copy's links lead to is another's."""
    return root.resolve() in path.resolve().parents


def _caches_of_cmake(src: Path, old: Path) -> list[Path]:
    """Return the caches in checkouts that CMake has made for sources of the old place.

    CMake refuses such a cache. The rest of a build tree stays: it may be the source tree itself.
    """
    caches = [path for depth in ("*", "*/*", "*/*/*") for path in src.glob(f"{depth}/{_CACHE}")]
    return [path for path in caches if _configured_for(path, old)]


def _configured_for(cache: Path, old: Path) -> bool:
    if not cache.is_file() or cache.is_symlink():
        return False
    with cache.open(encoding="utf-8", errors="surrogateescape") as lines:
        return any(line.startswith((f"{_HOME}{old}/", f"{_HOME}{old}\n")) for line in lines)
