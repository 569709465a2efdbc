"""Imports an export into a mirror: verifies all of it first, then applies it as one change."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from xpubuild.engine.files import explained
from xpubuild.engine.process import Cancel
from xpubuild.errors import FetchError, SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.mirror.check import check
from xpubuild.supply.mirror.entries import MANIFEST, Entry, EntryError, FileRecord, parse
from xpubuild.supply.mirror.failures import damage_error
from xpubuild.supply.mirror.index import read_manifest
from xpubuild.supply.mirror.merging import merge
from xpubuild.supply.mirror.needs import set_damages
from xpubuild.supply.mirror.repositories import is_plain
from xpubuild.supply.mirror.sets import read_set
from xpubuild.supply.mirror.store import Mirror
from xpubuild.supply.mirror.tarform import (
    BLOCK,
    FIRST,
    Contents,
    ending,
    header,
    padding,
    read_contents,
    size_in,
)
from xpubuild.supply.mirror.writing import Stage

_CHUNK = 1 << 20


@frozen
class Imported:
    """What an import brought: ``new`` are the entries that the mirror did not have, or had otherwise."""

    contents: Contents
    new: tuple[Entry, ...]
    known: tuple[Entry, ...]


def look_at(source: Path, progress: Callable[[int], None] | None = None) -> Contents:
    """Return what an export holds, every byte of it looked at and nothing written.

    Raises:
        FetchError: there is no such file.
        SourceIntegrityError: a byte of it is not what its manifest says; the message names the member.
    """
    _require_there(source)
    with explained(source, f"reading {source.name}"), source.open("rb") as stream:
        return _Reader(source, stream, None, progress).run()


def import_file(
    source: Path,
    mirror: Mirror,
    *,
    progress: Callable[[int], None] | None = None,
    cancel: Cancel | None = None,
) -> Imported:
    """Merge the export ``source`` into ``mirror``.

    Raises:
        FetchError: there is no such file.
        SourceIntegrityError: a byte of it is not what its manifest says; the message names the member, and
            nothing was put in place. Or commits that a damaged mirror has would be lost: nothing was changed.
        NoSpaceError, ToolchainError: the mirror cannot be written to.
        InterruptedByUserError: ``cancel`` was set; the mirror has nothing of the export, or all of it.
    """
    _require_there(source)
    asked = cancel or Cancel()
    with mirror.stage() as change:
        with explained(mirror.path, f"importing {source.name}"), source.open("rb") as stream:
            contents = _Reader(source, stream, change, progress).run()
        entries = _entries(source, change, contents)
        _require_complete(source, mirror, change, entries)
        new, known = merge(mirror.path, change, entries, source=source, cancel=asked)
        asked.stop_here()  # the last moment: what is published happens as a whole
        if change.entries:
            change.publish()
        # What was here and sound was looked at before; what came is read once more, from its place.
        damages = check(mirror.path, only={entry.id for entry in new}, progress=asked.stop_here)
        if damages:
            raise damage_error(mirror.path, damages)
    return Imported(contents, tuple(new), tuple(known))


def _require_there(source: Path) -> None:
    if not source.is_file():
        raise FetchError(
            f"the export {source} does not exist",
            why="no such file",
            fix="pass the file that xpubuild fetch --export wrote",
        )


@dataclass
class _Reader:
    """Reads an export block by block into a change, or only looks; what it reads must be what it expects."""

    source: Path
    stream: BinaryIO
    change: Stage | None
    progress: Callable[[int], None] | None

    def run(self) -> Contents:
        first = self.stream.read(BLOCK)
        size = size_in(first)
        if size is None:
            raise refused(self.source, FIRST, "the file does not begin like an export")
        data = self.stream.read(size)
        try:
            contents = read_contents(data)
        except EntryError as error:
            raise refused(self.source, FIRST, str(error)) from error
        self._expect(padding(size), FIRST)
        length = BLOCK + size + -size % BLOCK
        for member in contents.members:
            before = header(member.path, member.size)
            self._expect(before, member.path)
            self._take(member)
            self._expect(padding(member.size), member.path)
            length += len(before) + member.size + -member.size % BLOCK
        self._expect(ending(length), "its end")
        if self.stream.read(1):
            raise refused(self.source, "its end", "there is data after the last member")
        return contents

    def _expect(self, wanted: bytes, name: str) -> None:
        found = self.stream.read(len(wanted))
        if found != wanted:
            short = len(found) < len(wanted)
            why = "the file ends too early" if short else "its header or padding in the tar file is damaged"
            raise refused(self.source, name, why)

    def _take(self, member: FileRecord) -> None:
        total, left = hashlib.sha256(), member.size
        with self.change.create(member.path) if self.change else contextlib.nullcontext() as target:
            while left:
                chunk = self.stream.read(min(_CHUNK, left))
                if not chunk:
                    raise refused(self.source, member.path, "the file ends too early")
                left -= len(chunk)
                total.update(chunk)
                if target is not None:
                    target.write(chunk)
                if self.progress is not None:
                    self.progress(len(chunk))
        if total.hexdigest() != member.sha256:
            why = f"its sha256 is {total.hexdigest()}, the manifest says {member.sha256}"
            raise refused(self.source, member.path, why)


def _entries(source: Path, change: Stage, contents: Contents) -> list[Entry]:
    """Return the entries of an export; its other members must be exactly their files."""
    entries: list[Entry] = []
    rest = {member.path: member for member in contents.members}
    for path in [path for path in rest if path.startswith(f"{MANIFEST}/")]:
        identifier = path.removeprefix(f"{MANIFEST}/").removesuffix(".json")
        try:
            entry = parse((change.folder / path).read_bytes(), identifier)
        except EntryError as error:
            raise refused(source, path, str(error)) from error
        entries.append(entry)
        del rest[path]
        (change.folder / path).unlink()
    for entry in entries:
        for record in entry.files:
            if rest.pop(record.path, None) != record:
                raise refused(source, record.path, "it does not match its entry, or is missing")
        _require_harmless(source, change, entry)
    for path in rest:
        raise refused(source, path, "no entry of the export has it")
    return entries


def _require_harmless(source: Path, change: Stage, entry: Entry) -> None:
    if entry.kind == "set":
        try:
            read_set((change.folder / entry.files[0].path).read_bytes())
        except EntryError as error:
            raise refused(source, entry.files[0].path, str(error)) from error
    if entry.kind == "git" and not is_plain(change.folder / entry.folder):
        raise refused(source, f"{entry.folder}/config", "it has settings that a mirror must not have")


def _require_complete(source: Path, mirror: Mirror, change: Stage, entries: list[Entry]) -> None:
    """Refuse a set without what it needs: neither here nor in the export."""
    here = [*entries, *read_manifest(mirror.path).entries.values()]
    sets = [entry for entry in entries if entry.kind == "set"]
    for damage in set_damages(change.folder, sets, here, ()):
        raise refused(source, damage.path, damage.why)


def refused(source: Path, member: str, why: str) -> SourceIntegrityError:
    """Return the error of an export that is not what it should be."""
    return SourceIntegrityError(
        f"the export {source} is damaged: {member}",
        why=why,
        fix="copy the file again, or create it again with xpubuild fetch --export; nothing was imported",
        evidence={"export": str(source), "member": member},
    )
