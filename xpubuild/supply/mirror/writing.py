"""Changes a mirror: files are staged, verified, then renamed; the next writer finishes an interrupted change.

A change is a folder with the layout of a mirror. While it grows it is ``.stage-…`` and worth nothing; once
all of it is there and flushed, it is renamed to ``.commit-…``, and from then on it happens: its files go to
their places, its entries into the index after them. Doing any of it twice does no harm.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from xpubuild.engine.files import explained, fsync_dir, remove_tree
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.git.locks import locked
from xpubuild.supply.mirror.entries import GIT, INDEX, Entry, FileRecord
from xpubuild.supply.mirror.foreign import require_no_way_out, unverified
from xpubuild.supply.mirror.index import read_manifest, render_index, write_index
from xpubuild.supply.mirror.reading import COMMITTING, STAGING, digest_of, hashed, scan, walk
from xpubuild.supply.mirror.repositories import order


@dataclass
class Stage:
    """A change of the mirror at ``root`` that is being put together in ``folder``."""

    root: Path
    folder: Path
    entries: list[Entry] = field(default_factory=list)

    def write(self, path: str, data: bytes) -> FileRecord:
        """Add a file with this content."""
        with explained(self.root, "writing to the mirror"), self.create(path) as stream:
            stream.write(data)
        return FileRecord(path, len(data), hashlib.sha256(data).hexdigest())

    @contextlib.contextmanager
    def create(self, path: str) -> Iterator[BinaryIO]:
        """Open a new file of the change; it is flushed to the disk at the end."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        target.chmod(0o644)

    def copy(self, path: str, source: Path, progress: Callable[[int], None] | None = None) -> FileRecord:
        """Add a copy of ``source``, hashed on the way."""
        with (
            explained(self.root, f"copying {source.name}"),
            source.open("rb") as origin,
            self.create(path) as stream,
        ):
            return FileRecord(path, *hashed(origin, stream.write, progress))

    def take(self, path: str, source: Path) -> FileRecord:
        """Move ``source``, a file of the same file system, into the change, and hash it."""
        target = self.folder / path
        with explained(self.root, f"taking {source.name}"):
            target.parent.mkdir(parents=True, exist_ok=True)
            source.replace(target)
            target.chmod(0o644)
            with target.open("rb") as stream:
                os.fsync(stream.fileno())
        return FileRecord(path, *digest_of(target))

    def enter(self, entry: Entry) -> None:
        """Add the entry of what was put into the change."""
        self.entries.append(entry)

    def publish(self) -> None:
        """Make the change happen, whole or not at all."""
        self.write(INDEX, render_index(self.entries))
        with explained(self.root, "changing the mirror"):
            for folder, _, _ in os.walk(self.folder):
                fsync_dir(Path(folder))
            ready = self.folder.with_name(self.folder.name.replace(STAGING, COMMITTING, 1))
            self.folder.rename(ready)
            fsync_dir(self.root)
            finish(self.root, ready)


@contextlib.contextmanager
def staged(root: Path) -> Iterator[Stage]:
    """Begin a change; what ``publish`` did not take is removed at the end. The caller holds the lock.

    Raises:
        NoSpaceError, ToolchainError: the mirror cannot be written to.
    """
    with explained(root, "changing the mirror"):
        folder = Path(tempfile.mkdtemp(prefix=STAGING, dir=root))
    try:
        yield Stage(root, folder)
    finally:
        if folder.exists():
            remove_tree(folder)


def finish(root: Path, ready: Path) -> None:
    """Put a verified change in place; where it was begun before, carry on."""
    # The index comes last of all: as long as it is here, what it leaves out may have to go.
    entries = read_manifest(ready).entries
    for entry in entries.values():
        if entry.kind == "git":
            with locked((root / entry.folder).with_suffix(".lock")):
                _make_room(root, entry)
        elif entry.folder:
            _make_room(root, entry)
    for item in scan(ready / GIT):
        target = root / GIT / item.name
        target.parent.mkdir(exist_ok=True)
        with locked(target.with_suffix(".lock")):
            if not target.exists():
                Path(item.path).rename(target)
            else:
                _move(ready, root, sorted((f"{GIT}/{item.name}/{path}" for path, _ in walk(Path(item.path))),
                                          key=order))  # fmt: skip
    _move(ready, root, [record.path for entry in entries.values() for record in entry.files
                        if entry.kind != "git" and (ready / record.path).exists()])  # fmt: skip
    write_index(root, {**read_manifest(root).entries, **entries}.values())
    for folder in (root / GIT, root):
        if folder.is_dir():
            fsync_dir(folder)
    remove_tree(ready)


def _make_room(root: Path, entry: Entry) -> None:
    """Take out of an entry's own folder what it does not list, and what stands where its files must be."""
    folder = root / entry.folder
    if folder.is_symlink() or folder.is_file():
        remove_tree(folder)
    listed = {record.path for record in entry.files}
    for path in listed:
        if (root / path).is_dir() and not (root / path).is_symlink():
            remove_tree(root / path)
    for inside, item in walk(folder):
        if f"{entry.folder}/{inside}" not in listed:
            remove_tree(Path(item.path))


def _move(ready: Path, root: Path, paths: list[str]) -> None:
    for path in paths:
        target = root / path
        if target.is_dir() and not target.is_symlink():
            raise SourceIntegrityError(
                f"{target} is a folder", why="the mirror needs a file of this name", fix="remove that folder"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        (ready / path).replace(target)


def recover(root: Path) -> None:
    """Finish what a killed writer had verified, and remove what it had not. The caller holds the lock.

    Raises:
        SourceIntegrityError: a part of the mirror leads out of it.
    """
    require_no_way_out(root)
    with explained(root, "finishing an earlier change of the mirror"):
        for item in scan(root):
            if item.name.startswith(COMMITTING) and not unverified(root, Path(item.path)):
                finish(root, Path(item.path))
            elif item.name.startswith((COMMITTING, STAGING)):
                remove_tree(Path(item.path))
