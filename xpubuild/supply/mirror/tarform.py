"""The one form of an export: an uncompressed tar whose every byte follows from its first member.

The first member, ``MANIFEST.json``, lists the others with size and sha256 in their order. All else in a
header is fixed, so an import needs no reader of tar files: it compares each header with the one that must be
there.
"""

from __future__ import annotations

import tarfile

from xpubuild.documents import plain
from xpubuild.frozen import frozen
from xpubuild.supply.mirror.entries import (
    EntryError,
    FileRecord,
    is_name,
    read_as,
    require_record,
    sealed,
    unsealed,
)

FIRST = "MANIFEST.json"
SCHEMA = "xpubuild.mirror-export/1"
BLOCK = tarfile.BLOCKSIZE
#: A manifest of a million files is below this; a larger number is a damaged header.
LARGEST_MANIFEST = 1 << 29


@frozen
class Contents:
    """What an export holds: its members in order, and the digest that names the export."""

    members: tuple[FileRecord, ...]
    digest: str

    @property
    def size(self) -> int:
        """All bytes of the members."""
        return sum(member.size for member in self.members)


def contents_text(members: tuple[FileRecord, ...]) -> bytes:
    """Return the first member of an export."""
    return sealed({"schema": SCHEMA, "members": plain(members)})


def read_contents(data: bytes) -> Contents:
    """Return what the first member of an export lists.

    Raises:
        EntryError: it is damaged, or names a path that no mirror has.
    """
    document = unsealed(data, SCHEMA)
    members = read_as(_Listed, document).members
    for record in members:
        require_record(record)
        if not all(is_name(part) for part in record.path.split("/")):
            raise EntryError(f"'{record.path}' is not a path of a mirror")
    if len({member.path for member in members}) != len(members):
        raise EntryError("it lists a member twice")
    return Contents(members, str(document["digest"]))


@frozen
class _Listed:
    members: tuple[FileRecord, ...]


def header(name: str, size: int) -> bytes:
    """Return the blocks that stand before a member's content."""
    info = tarfile.TarInfo(name)
    info.size, info.mode = size, 0o644
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def size_in(first_block: bytes) -> int | None:
    """Return the size that the first header names; None where it is not the one of an export."""
    try:
        info = tarfile.TarInfo.frombuf(first_block, "utf-8", "surrogateescape")
    except tarfile.HeaderError:
        return None
    fits = info.name == FIRST and 0 < info.size <= LARGEST_MANIFEST
    return info.size if fits and header(FIRST, info.size) == first_block else None


def padding(size: int) -> bytes:
    """Return the zeros that follow a content of ``size`` bytes."""
    return bytes(-size % BLOCK)


def ending(length: int) -> bytes:
    """Return the zeros that end a tar of ``length`` bytes."""
    return bytes(2 * BLOCK + -(length + 2 * BLOCK) % tarfile.RECORDSIZE)
