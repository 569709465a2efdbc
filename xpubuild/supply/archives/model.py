"""What the rest of xpubuild knows of an archive that a build would download itself. Pure."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from xpubuild.frozen import frozen

#: What is unpacked for a build, in the folder of the archives.
LIST = "archives.json"
ENDINGS = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".zip")


@frozen
class Archive:
    """An archive that a build asks for; ``sha256`` is None where upstream states none.

    ``folder`` is the folder in it that the build is told.
    """

    name: str
    url: str
    sha256: str | None = None
    folder: str = "."


@frozen
class Held:
    """An archive that is here, at ``path``, and what it is."""

    archive: Archive
    path: Path
    sha256: str
    size: int


#: Returns an archive of a mirror, every byte of it verified, or None.
Finder = Callable[[Archive], Path | None]


def file_name(url: str) -> str:
    """Return the name of the file that a URL names; "" where it names none."""
    return posixpath.basename(urlsplit(url).path)


def hash_from(stated: str | None) -> str:
    """Return who vouches for the hash of an archive."""
    return "upstream" if stated is not None else "first download"
