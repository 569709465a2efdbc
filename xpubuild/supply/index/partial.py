"""The file into which a download is written: kept for the next try, never shared by two processes."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from xpubuild.engine.temporary import new_draft
from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.index.files import RemoteFile

_NAME_OF_HASH = 12


@frozen
class Part:
    """An open file beside the place of a download; the stream is at its end."""

    path: Path
    stream: BinaryIO


@contextlib.contextmanager
def part_of(into: Path, file: RemoteFile) -> Iterator[Part]:
    """Open the part of ``file`` that an earlier try left, or a new one; one that turned out wrong is removed.

    Where another process writes the same part, or where no hash could tell a wrong part from a right one, it
    is a new file that goes when the download fails.
    """
    part = _kept(into, file) if file.expected else None
    kept = part is not None
    part = part or _fresh(into)
    try:
        with part.stream:
            yield part
    except SourceIntegrityError:
        part.path.unlink(missing_ok=True)
        raise
    except BaseException:
        if not kept:
            part.path.unlink(missing_ok=True)
        raise


def _kept(into: Path, file: RemoteFile) -> Part | None:
    path = into / f".{file.filename}.{min(file.expected)[:_NAME_OF_HASH]}.part"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    stream = os.fdopen(descriptor, "r+b")
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        stream.close()
        return None
    if not path.exists() or path.stat().st_ino != os.fstat(descriptor).st_ino:
        # Another process finished it and moved it into place between open and lock.
        stream.close()
        return None
    stream.seek(0, os.SEEK_END)
    return Part(path, stream)


def _fresh(into: Path) -> Part:
    descriptor, path = new_draft(into)
    return Part(path, os.fdopen(descriptor, "r+b"))
