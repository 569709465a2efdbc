"""What the rest of xpubuild knows of a Python file that is to be fetched."""

from __future__ import annotations

import functools
from dataclasses import field
from pathlib import Path

from xpubuild.engine.fingerprint import file_sha256
from xpubuild.frozen import frozen


@frozen
class RemoteFile:
    """A wheel or source distribution of an index or wheel folder; ``dist`` is canonical, ``size`` in bytes.

    ``url`` may be written down: no user, no password, no query. ``sha256`` is None where the index states
    none; ``allowed`` then are the hashes of the requirement file, of which the download must have one.
    ``origin`` is the exact link, which may hold secrets, and no part of what is compared, shown or recorded.
    ``is_archive`` marks what is no Python file: an archive that a build would download itself.
    """

    dist: str
    version: str
    filename: str
    sha256: str | None
    size: int | None
    url: str
    requires_python: str | None = None
    allowed: frozenset[str] = field(default=frozenset(), repr=False)
    origin: str = field(default="", repr=False, compare=False)
    is_archive: bool = False

    @property
    def link(self) -> str:
        """The link to ask: exact where this object came from an index, else as recorded."""
        return self.origin or self.url

    @property
    def expected(self) -> frozenset[str]:
        """The sha256 of which the file must have one; empty where nobody states any."""
        return frozenset((self.sha256,)) if self.sha256 else self.allowed


def stated(path: Path) -> tuple[str, int]:
    """Return sha256 and size (bytes) of a file that is here; one that has not changed is read once."""
    facts = path.stat()
    return _hashed(str(path), facts.st_size, facts.st_mtime_ns), facts.st_size


@functools.lru_cache(maxsize=1024)
def _hashed(path: str, size: int, mtime_ns: int) -> str:  # noqa: ARG001 - of the key: what tells a change
    return file_sha256(Path(path))
