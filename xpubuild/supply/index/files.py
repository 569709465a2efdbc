"""One file that is fetched by its URL."""

from __future__ import annotations

import re
from dataclasses import field

from xpubuild.frozen import frozen

# Letters that the names of files have (PEP 427, PEP 625, conda's _openmp_mutex); nothing that a path could be
# made of.
_FILENAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!~-]*")


@frozen
class RemoteFile:
    """A conda package, an archive or a file of a served mirror; ``size`` in bytes.

    ``url`` may be written down: no user, no password, no query. ``origin`` is the exact link, which may hold
    secrets, and no part of what is compared, shown or recorded. ``sha256`` is None where nobody states it.
    ``is_archive`` marks an archive that a build would download itself.
    """

    dist: str
    version: str
    filename: str
    sha256: str | None
    size: int | None
    url: str
    origin: str = field(default="", repr=False, compare=False)
    is_archive: bool = False

    @property
    def link(self) -> str:
        """The link to ask."""
        return self.origin or self.url


def is_filename(name: str) -> bool:
    """Return whether ``name`` can be that of a wheel or archive: no path, not hidden."""
    return _FILENAME.fullmatch(name) is not None
