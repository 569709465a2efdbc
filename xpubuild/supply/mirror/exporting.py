"""Exports a mirror, or what one recipe needs of it, to one file for an air-gapped network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO

from xpubuild.engine.files import explained, replacing
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.mirror.entries import FILES, GIT, MANIFEST, SETS, Entry, FileRecord, render
from xpubuild.supply.mirror.failures import damage_error
from xpubuild.supply.mirror.reading import Damage, hashed
from xpubuild.supply.mirror.store import Mirror
from xpubuild.supply.mirror.tarform import (
    FIRST,
    Contents,
    contents_text,
    ending,
    header,
    padding,
    read_contents,
)

_ORDER = (MANIFEST, SETS, FILES, GIT)


def export(
    mirror: Mirror,
    entries: Iterable[Entry],
    target: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> Contents:
    """Write ``entries`` and their files to ``target``; equal entries give equal bytes.

    Every byte is compared with the index on its way; ``target`` appears when all of it is written.

    Raises:
        SourceIntegrityError: a file of the mirror is damaged; no export is left.
        NoSpaceError, ToolchainError: ``target`` cannot be written.
    """
    texts: dict[str, bytes] = {}
    records: list[FileRecord] = []
    for entry in entries:
        path, data = f"{MANIFEST}/{entry.id}.json", render(entry)
        texts[path] = data
        records += [FileRecord(path, len(data), hashlib.sha256(data).hexdigest()), *entry.files]
    members = tuple(
        sorted(records, key=lambda record: (_ORDER.index(record.path.split("/")[0]), record.path))
    )
    with explained(target, f"writing {target.name}"):
        target.parent.mkdir(parents=True, exist_ok=True)
        with replacing(target) as stream:
            _write(mirror.path, members, texts, stream, progress)
    return read_contents(contents_text(members))


def _write(
    root: Path,
    members: tuple[FileRecord, ...],
    texts: dict[str, bytes],
    stream: BinaryIO,
    progress: Callable[[int], None] | None,
) -> None:
    first = contents_text(members)
    length = stream.write(header(FIRST, len(first)) + first + padding(len(first)))
    for member in members:
        length += stream.write(header(member.path, member.size))
        if member.path in texts:
            length += stream.write(texts[member.path])
        else:
            length += _copy(root, member, stream, progress)
        length += stream.write(padding(member.size))
    stream.write(ending(length))


def _copy(root: Path, member: FileRecord, stream: BinaryIO, progress: Callable[[int], None] | None) -> int:
    try:
        with (root / member.path).open("rb") as source:
            size, digest = hashed(source, stream.write, progress)
    except FileNotFoundError:
        raise _damaged(root, member, "it does not exist") from None
    if (size, digest) != (member.size, member.sha256):
        raise _damaged(root, member, "it does not match the index")
    return size


def _damaged(root: Path, member: FileRecord, why: str) -> SourceIntegrityError:
    return damage_error(root, [Damage(member.path, "is damaged", why)])
