"""``Remote``: a served folder of which files are had by their names, and what its two transports share.

``read`` brings small files into memory, ``bring`` others into a folder by their hash; nothing is listed, and
nothing of the layout of a mirror is known here. ``gather.served_mirror.remote_of`` returns the one of a
``Location``, over http or ssh. Whoever has the folder itself needs neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from xpubuild.engine.files import explained, replacing
from xpubuild.supply.mirror.entries import FileRecord
from xpubuild.supply.mirror.reading import digest_of
from xpubuild.supply.mirror.remote.failures import damaged_there
from xpubuild.supply.mirror.remote.location import Location

#: Told how many bytes more are here, and of which file; a negative number takes some back.
Count = Callable[[int, str], None]

_CHUNK = 1 << 16


class Remote(Protocol):
    """A mirror that is read from afar."""

    @property
    def location(self) -> Location:
        """Where it is."""
        ...

    def read(self, paths: Sequence[str]) -> dict[str, bytes]:
        """Return the content of small files by path; what is not there is left out.

        Raises:
            FetchError: the server does not answer (``is_unreachable``), or refuses.
            InterruptedByUserError.
        """
        ...

    def bring(self, records: Sequence[FileRecord], into: Path, count: Count) -> None:
        """Bring each file as ``into/<sha256>``, every byte of it verified.

        Raises:
            FetchError: one did not come.
            SourceIntegrityError: one is not what its record says; names it.
            NoSpaceError, ToolchainError, InterruptedByUserError.
        """
        ...


def is_here(into: Path, record: FileRecord) -> bool:
    """Whether an earlier try has brought the file, every byte of it."""
    try:
        return digest_of(into / record.sha256) == (record.size, record.sha256)
    except OSError:
        return False


def keep(
    location: Location,
    record: FileRecord,
    into: Path,
    chunks: Callable[[], bytes],
    count: Count,
) -> None:
    """Write what ``chunks`` gives until it gives nothing as ``into/<sha256>``; only what is right gets there.

    Raises:
        SourceIntegrityError: it is another content.
        NoSpaceError, ToolchainError: it cannot be written.
    """
    with explained(into, f"fetching {record.path}"), replacing(into / record.sha256) as stream:
        size, digest = _copy(stream, chunks, record, count)
        if (size, digest) != (record.size, record.sha256):
            raise damaged_there(location, record.path, _why(size, digest, record))


def _copy(stream: BinaryIO, chunks: Callable[[], bytes], record: FileRecord, count: Count) -> tuple[int, str]:
    total, size = hashlib.sha256(), 0
    while (chunk := chunks()) and size <= record.size:
        total.update(chunk)
        size += stream.write(chunk)
        count(len(chunk), record.path)
    return size, total.hexdigest()


def _why(size: int, digest: str, record: FileRecord) -> str:
    if size != record.size:
        has = f"more than {record.size}" if size > record.size else str(size)
        return f"it has {has} bytes, the index says {record.size}"
    return f"its sha256 is {digest}, the index says {record.sha256}"
