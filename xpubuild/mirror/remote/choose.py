"""Finds what a recipe needs of a mirror on a server: sets, and their repositories and files."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from xpubuild.mirror.entries import (
    INDEX,
    MANIFEST,
    MARK,
    MARK_TEXT,
    Entry,
    EntryError,
    entry_id,
    parse,
)
from xpubuild.mirror.index import read_index
from xpubuild.mirror.remote.failures import damaged_there, no_mirror_there, not_brought
from xpubuild.mirror.remote.transport import Remote
from xpubuild.mirror.sets import MirrorSet, read_set
from xpubuild.source.urls import mirror_name
from xpubuild.untrusted import UntrustedError, read_bytes

_Parsed = TypeVar("_Parsed")


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
        every = self._entries(names or self.index)
        self.sets = {name: entry for name, entry in every.items() if entry.kind == "set"}
        self.entries = {name: entry for name, entry in every.items() if entry.kind != "set"}
        if names:
            needed = self._documents()
            self.entries = self._entries(sorted(needs_of(needed.values())))
            for name, document in needed.items():
                self._require_satisfied(name, document)
        return self

    def _documents(self) -> dict[str, MirrorSet]:
        """Return the sets themselves; each has a digest of its own."""
        paths = {entry.files[0].path: name for name, entry in self.sets.items()}
        texts = self._texts({entry.files[0].path: entry.files[0].sha256 for entry in self.sets.values()})
        return {name: self._sound(path, texts, read_set) for path, name in paths.items()}

    def _entries(self, names: Iterable[str]) -> dict[str, Entry]:
        paths = {f"{MANIFEST}/{name}.json": name for name in names}
        for path, name in paths.items():
            if name not in self.index:
                why = "a set of the mirror needs it, and its index does not have it"
                raise not_brought(self.remote.location, path, why)
        # Another hash than that of the index is no damage: each entry carries a digest of itself, and while
        # somebody fetches into the mirror, its manifest is ahead of the index.
        texts = self._texts({path: self.index[name] for path, name in paths.items()})
        return {
            name: self._sound(path, texts, functools.partial(parse, identifier=name))
            for path, name in paths.items()
        }

    def _texts(self, wanted: Mapping[str, str]) -> dict[str, bytes]:
        """Return small files by path; ``wanted`` are the hashes by which the copy's own are known."""
        here = {path: data for path, digest in wanted.items() if (data := _kept(self.root / path, digest))}
        return here | self.remote.read([path for path in wanted if path not in here])

    def _sound(self, path: str, texts: Mapping[str, bytes], parsed: Callable[[bytes], _Parsed]) -> _Parsed:
        if path not in texts:
            raise not_brought(self.remote.location, path, "the server does not have it")
        try:
            return parsed(texts[path])
        except EntryError as error:
            raise damaged_there(self.remote.location, path, str(error)) from None

    def _require_satisfied(self, name: str, needed: MirrorSet) -> None:
        for use in needed.repositories:
            identifier = entry_id("git", mirror_name(use.url, len(use.commit)))
            if use.commit not in self.entries[identifier].pins:
                why = f"{name} needs commit {use.commit} of {use.url}"
                raise not_brought(self.remote.location, f"{MANIFEST}/{identifier}.json", why)


def _kept(path: Path, digest: str) -> bytes | None:
    """Return the content of a file of the copy, where it is there and has this hash."""
    with contextlib.suppress(OSError, UntrustedError):
        data = read_bytes(path) if path.is_file() else b""
        return data if hashlib.sha256(data).hexdigest() == digest else None
    return None


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
