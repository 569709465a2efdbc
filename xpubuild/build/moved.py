"""A workspace in another place than where it was made: told plainly, and nothing of the old place is used.

Scripts of an environment, build trees of CMake and fingerprints hold absolute paths, so what was built before
the move is built again. What must not happen meanwhile: that an environment is taken as ready whose scripts
start the interpreter of another folder, that CMake goes on in a tree of another place, or that, in a copy,
files of the workspace that it was copied from are taken for its own and removed.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from xpubuild.build.request import Layout
from xpubuild.engine import files
from xpubuild.engine.journal import Journal
from xpubuild.engine.journal_place import led
from xpubuild.toolchain.envmark import read_mark, write_mark

_CACHE = "CMakeCache.txt"
_HOME = "CMAKE_HOME_DIRECTORY:INTERNAL="
Kind = Literal["moved", "copied", "renamed"]


@dataclass(frozen=True)
class Moved:
    """Where a workspace was made, and where it is now.

    ``copied``: the old place still holds a workspace. ``renamed``: both names lead to one folder.
    """

    old: Path
    new: Path
    kind: Kind

    def told(self) -> str:
        """Say what happened, what follows from it, and how it can be undone."""
        again = "its environment and build trees hold that path, so everything is built again here"
        if self.kind == "copied":
            return f"this workspace is a copy of {self.old}: {again}; {self.old} itself is left as it is"
        if self.kind == "renamed":
            return (
                f"this workspace was made as {self.old}, another name of the same folder: {again}; to keep"
                f" what is built, use --workspace {shlex.quote(str(self.old))}"
            )
        back = shlex.join(["mv", str(self.new), str(self.old)])
        return (
            f"this workspace was moved from {self.old} to {self.new}: {again}; to keep what is built, move it"
            f" back before anything is installed: {back}"
        )


def moved(root: Path, journal: Journal | None) -> Moved | None:
    """Return from where a workspace came; None where it is in its place, or where that is not known."""
    place = journal.place() if journal is not None else None
    if place is None or place == str(root):
        return None
    old = Path(place)
    if (old / Layout(root).journal.name).is_file():
        same = old.samefile(root)
        return Moved(old, root, "renamed" if same else "copied")
    return Moved(old, root, "moved")


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
        path = Path(led(made, str(found.old), str(root)))
        if layout.build in (path, *path.parents):
            files.remove_tree(path)
    for tree in _trees_of_cmake(layout.src, found.old):
        files.remove_tree(tree)
    journal.move(str(found.old), str(root))
    return found


def _trees_of_cmake(src: Path, old: Path) -> list[Path]:
    """Return the build trees in checkouts that CMake has configured for sources of the old place."""
    caches = [path for pattern in (f"*/*/{_CACHE}", f"*/*/*/{_CACHE}") for path in src.glob(pattern)]
    return [path.parent for path in caches if _configured_for(path, old)]


def _configured_for(cache: Path, old: Path) -> bool:
    with cache.open(encoding="utf-8", errors="surrogateescape") as lines:
        return any(line.startswith((f"{_HOME}{old}/", f"{_HOME}{old}\n")) for line in lines)
