"""What a mirror may have that xpubuild did not put there: links that lead elsewhere, unverified changes.

A mirror is shared, copied and carried on disks: whoever wrote to it before us is not trusted. Before the
first byte is written, moved or removed, what is written to must be below the mirror, and an unfinished change
must be what its index says.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path

from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.mirror.entries import GIT, INDEX, MARK, PAGE
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.reading import compare, scan, walk
from xpubuild.supply.mirror.repositories import is_plain

#: Files that writers put in the place of a link, without a look at where it leads.
_REPLACED = frozenset({INDEX, MARK, PAGE})


def require_no_way_out(root: Path) -> None:
    """Refuse a mirror of which a part is a link: what is written or removed there could be anybody's.

    Raises:
        SourceIntegrityError: there is one; it is named, and nothing was changed.
        ToolchainError: a folder cannot be read.
    """
    link = next(_links(root), None)
    if link is not None:
        raise SourceIntegrityError(
            f"{link} is a symbolic link, which a mirror does not have",
            why=f"it leads to {os.readlink(link)}: files there would be replaced or removed",  # noqa: PTH115
            fix="if the mirror is from somebody else, ask them; else put the files there and remove the link",
            commands=(f"ls -l {shlex.quote(str(link))}",),
        )


def _links(root: Path) -> Iterator[Path]:
    for item in scan(root):
        if item.is_symlink() and item.name not in _REPLACED:
            yield Path(item.path)
    # git writes wherever its folders lead. A link in the folder of a package is not followed but replaced.
    yield from _linked_folders(root / GIT)


def _linked_folders(folder: Path) -> Iterator[Path]:
    for item in scan(folder):
        if item.is_symlink() and Path(item.path).is_dir():
            yield Path(item.path)
        elif item.is_dir(follow_symlinks=False):
            yield from _linked_folders(Path(item.path))


def unverified(root: Path, ready: Path) -> str:
    """Return why an unfinished change must not be carried on with; "" where it is whole and sound.

    A part of it may be in its place in the mirror already.
    """
    manifest = read_manifest(ready)
    if manifest.damages:
        return str(manifest.damages[0])
    listed = {INDEX}
    for entry in manifest.entries.values():
        for record in entry.files:
            listed.add(record.path)
            here = ready if os.path.lexists(ready / record.path) else root
            why = compare(here, record)
            if why:
                return f"{record.path}: {why}"
        if entry.kind == "git" and not is_plain(_place(root, ready, entry.folder)):
            return f"{entry.folder} has settings that a mirror must not have"
    foreign = next((path for path, _ in walk(ready) if path not in listed), None)
    return "" if foreign is None else f"no entry has {foreign}"


def _place(root: Path, ready: Path, folder: str) -> Path:
    """Return where the settings of a repository are: they are moved among the last."""
    return next(
        (top / folder for top in (ready, root) if (top / folder / "config").is_file()), ready / folder
    )
