"""Brings one Python file: resumed where it was cut, checked against its hash, in place only when right."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path

from xpubuild.engine.files import explained, fsync_dir
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.watch import Cancel
from xpubuild.errors import RecipeError
from xpubuild.supply.index.choice import is_filename
from xpubuild.supply.index.config import IndexConfig
from xpubuild.supply.index.files import RemoteFile
from xpubuild.supply.index.partial import part_of
from xpubuild.supply.index.session import IndexSession
from xpubuild.supply.index.threads import in_threads
from xpubuild.supply.index.transfer import Transfer

__all__ = ["download"]


def download(
    file: RemoteFile,
    into: Path,
    config: IndexConfig,
    *,
    on_bytes: Callable[[int], None] | None = None,
    cancel: Cancel | None = None,
    session: IndexSession | None = None,
) -> Path:
    """Bring ``file`` into the folder ``into`` and return its place; one that is there and right is kept.

    ``on_bytes`` gets the number of bytes of this file that are here so far, in another thread, one call at a
    time; the number falls where a damaged part is thrown away. What a cut connection or a kill leaves (a
    hidden ``.part`` file) is carried on with, by this call and by later ones. ``session`` is one of this
    ``config`` whose connections are used again.

    Raises:
        RecipeError: the file's name is none.
        FetchError: it could not be fetched; names file and server.
        SourceIntegrityError: what came has another hash; nothing of it is kept.
        NoSpaceError, ToolchainError: ``into`` cannot be written.
        InterruptedByUserError: ``cancel`` was set.
    """
    if not is_filename(file.filename):
        raise RecipeError(
            f"'{file.filename}' is not the name of a Python package file",
            why="it would be outside the download folder, or hidden in it",
            fix="correct the lock or list that has it",
        )
    place = into / file.filename
    tell = on_bytes or (lambda _: None)
    with explained(into, f"fetching {shlex.quote(file.filename)}"):
        if _is_right(file, place):
            tell(place.stat().st_size)
            return place
        into.mkdir(parents=True, exist_ok=True)
        with part_of(into, file) as part:
            transfer = Transfer(file, part.stream, session or IndexSession(config), tell, cancel)
            in_threads(lambda _: transfer.run(), [None], cancel)
            part.stream.flush()
            os.fsync(part.stream.fileno())
            part.path.chmod(0o644)
            part.path.replace(place)
        fsync_dir(into)
    return place


def _is_right(file: RemoteFile, place: Path) -> bool:
    return bool(file.expected) and place.is_file() and file_sha256(place) in file.expected
