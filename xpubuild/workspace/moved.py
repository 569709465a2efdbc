"""A workspace that was moved or copied is refused: its environment and build trees contain its old path.

Otherwise an environment would be taken as ready whose scripts start the interpreter of another folder, or, in
a copy, files of the workspace that it was copied from would be taken for its own and removed.
"""

from __future__ import annotations

import contextlib
import shlex
from pathlib import Path

from xpubuild.engine.journal import Journal
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.workspace.layout import Layout


def place_of(root: Path) -> Path:
    """Return a workspace by the name that it was made under, where ``root`` is another name of its folder.

    Environment and build trees hold that name; under it, all that was built counts.
    """
    old = made_in(root)
    with contextlib.suppress(OSError):
        if old is not None and old.samefile(root):
            return old
    return root


def made_in(root: Path) -> Path | None:
    """Return where a workspace was made, None where that is here, or if its journal does not have it."""
    path = Layout(root).journal
    # Who opens the journal for more than this says what is wrong with it.
    with contextlib.suppress(OSError, ToolchainError):
        if path.is_file():
            with Journal(path, read_only=True) as journal:
                return _elsewhere(root, journal)
    return None


def _elsewhere(root: Path, journal: Journal) -> Path | None:
    place = journal.place()
    return None if place is None or place == str(root) else Path(place)


def origin(old: Path) -> str:
    """Say where a workspace was made, and what follows from that."""
    return f"this workspace was made in {old}: its environment and build trees contain that path"


def require_in_place(root: Path, journal: Journal) -> None:
    """Refuse a workspace that was moved or copied.

    Raises:
        UsageError: it was made in another folder.
    """
    old = _elsewhere(root, journal)
    if old is None:
        return
    back = () if old.exists() else (shlex.join(["mv", str(root), str(old)]),)
    fix = "move it back, or install into a new folder; what was fetched is in the cache"
    raise UsageError(f"{root} was moved or copied", why=origin(old), fix=fix, commands=back)
