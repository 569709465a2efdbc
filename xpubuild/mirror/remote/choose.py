"""Finds what a recipe needs of a mirror on a server: sets, and their repositories and files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xpubuild.errors import FetchError
from xpubuild.mirror.entries import (
    INDEX,
    MANIFEST,
    MARK,
    MARK_TEXT,
    PAGE_ID,
    Entry,
    EntryError,
    entry_id,
    parse,
    render,
)
from xpubuild.mirror.index import read_index
from xpubuild.mirror.reading import compare, read_manifest
from xpubuild.mirror.remote.failures import damaged_there, no_mirror_there, not_brought
from xpubuild.mirror.remote.transport import Remote
from xpubuild.mirror.sets import MirrorSet, read_set
from xpubuild.source.urls import mirror_name


def look(remote: Remote) -> dict[str, str]:
    """Return the index of a served mirror: entry id -> sha256 of its manifest file.

    Raises:
        FetchError: the server does not answer, or there is no mirror with an index.
        SourceIntegrityError: mark or index are damaged.
    """
    location = remote.location
    found = remote.read([MARK, INDEX])
    mark, data = found.get(MARK), found.get(INDEX)
    if mark is None:
        raise no_mirror_there(location, f"it has no {MARK}")
    try:
        index = read_index(data) if data is not None else None
    except EntryError as error:
        if mark != MARK_TEXT:
            raise no_mirror_there(location, f"its {MARK} is not valid") from None
        raise damaged_there(location, INDEX, str(error)) from None
    if mark != MARK_TEXT:
        raise damaged_there(location, MARK, "it does not mark the folder as a mirror")
    if index is None:
        raise no_mirror_there(location, f"it has no {INDEX}, and over http or ssh nothing else lists it")
    return index


@dataclass
class Chosen:
    """The entries of a served mirror with the ``index`` that a recipe needs, ``root`` being the copy.

    What the copy has as the index says is not asked for again.
    """

    remote: Remote
    root: Path
    index: Mapping[str, str]
    sets: dict[str, Entry] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)

    def of(self, recipe: str | None) -> Chosen:
        """Take the sets of ``recipe`` and what they need; everything where it has none.

        Raises:
            FetchError, SourceIntegrityError: an entry cannot be had, or is damaged.
        """
        names = set_ids(self.index, recipe) if recipe is not None else []
        if not names:
            every = self._read(name for name in self.index if name != PAGE_ID)
            self.sets = {name: entry for name, entry in every.items() if entry.kind == "set"}
            self.entries = {name: entry for name, entry in every.items() if entry.kind != "set"}
            return self
        self.sets = self._read(names)
        needed = self._documents()
        self.entries = self._read(sorted(needs_of(needed.values())))
        for name, document in needed.items():
            self._require_satisfied(name, document)
        return self

    def _documents(self) -> dict[str, MirrorSet]:
        """Return the sets themselves, every byte verified."""
        records = {name: entry.files[0] for name, entry in self.sets.items()}
        lacking = [record.path for record in records.values() if compare(self.root, record)]
        came = self.remote.read(lacking)
        found = {}
        for name, record in records.items():
            here = record.path not in lacking
            data = (self.root / record.path).read_bytes() if here else came.get(record.path)
            if data is None:
                raise not_brought(self.remote.location, record.path, "the server does not have it")
            if hashlib.sha256(data).hexdigest() != record.sha256:
                raise damaged_there(self.remote.location, record.path, "it has another sha256")
            try:
                found[name] = read_set(data)
            except EntryError as error:
                raise damaged_there(self.remote.location, record.path, str(error)) from None
        return found

    def _read(self, names: Iterable[str]) -> dict[str, Entry]:
        """Return entries, from the copy where it has them as the index says."""
        here = read_manifest(self.root).entries
        found, lacking = {}, []
        for name in names:
            if name not in self.index:
                raise self._lacks(name, "a set of the mirror needs it, and its index does not have it")
            entry = here.get(name)
            if entry is not None and hashlib.sha256(render(entry)).hexdigest() == self.index[name]:
                found[name] = entry
            else:
                lacking.append(name)
        came = self.remote.read([f"{MANIFEST}/{name}.json" for name in lacking])
        for name in lacking:
            path = f"{MANIFEST}/{name}.json"
            if path not in came:
                raise self._lacks(name, "the server does not have it")
            try:
                # Another hash than that of the index is no damage: each entry carries a digest of itself, and
                # while somebody fetches into the mirror, its manifest is ahead of the index.
                found[name] = parse(came[path], name)
            except EntryError as error:
                raise damaged_there(self.remote.location, path, str(error)) from None
        return found

    def _require_satisfied(self, name: str, needed: MirrorSet) -> None:
        for use in needed.repositories:
            identifier = entry_id("git", mirror_name(use.url, len(use.commit)))
            if use.commit not in self.entries[identifier].pins:
                raise self._lacks(identifier, f"{name} needs commit {use.commit} of {use.url}")

    def _lacks(self, name: str, why: str) -> FetchError:
        return not_brought(self.remote.location, f"{MANIFEST}/{name}.json", why)


def set_ids(names: Iterable[str], recipe: str) -> list[str]:
    """Return which of the entries ``names`` are sets of ``recipe``; "demo" has none of those of "demo-2"."""
    form = re.compile(rf"set-{re.escape(recipe)}-[0-9a-f]{{16}}")
    return sorted(name for name in names if form.fullmatch(name))


def needs_of(sets: Iterable[MirrorSet]) -> set[str]:
    """Return the ids of the repositories and files that sets name."""
    found: set[str] = set()
    for needed in sets:
        found |= {entry_id("git", mirror_name(use.url, len(use.commit))) for use in needed.repositories}
        found |= {entry_id("wheel", sha256) for sha256 in needed.files}
    return found
