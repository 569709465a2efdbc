"""``Remote``: a served folder of which files are had by their names.

``read`` brings small files into memory, ``bring`` others into a folder by their hash; nothing is listed, and
nothing of the layout of a mirror is known here. Whoever has the folder itself does not need it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from xpubuild.supply.mirror.entries import FileRecord
from xpubuild.supply.mirror.reading import digest_of
from xpubuild.supply.mirror.remote.location import Location

#: Told how many bytes more are here, and of which file; a negative number takes some back.
Count = Callable[[int, str], None]


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
