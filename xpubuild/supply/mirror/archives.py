"""Archives that a build would download itself, as a mirror has them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from xpubuild.engine.redact import recordable
from xpubuild.supply.archives import Archive, Finder
from xpubuild.supply.mirror.entries import Entry
from xpubuild.supply.mirror.store import Mirror


def entry_of(entries: Iterable[Entry], url: str, sha256: str | None) -> Entry | None:
    """Return the entry of an archive: by its hash, or by where it came from if upstream states none."""
    for entry in entries:
        if entry.sha256 == sha256:
            return entry
        if sha256 is None and entry.kind == "archive" and entry.url == recordable(url, tokens_in_path=True):
            return entry
    return None


def in_mirror(place: Path | None) -> Finder | None:
    """Return what finds archives in the mirror at ``place``, each byte verified; None without a mirror."""
    if place is None:
        return None
    mirror = Mirror.open(place)

    def find(archive: Archive) -> Path | None:
        entry = entry_of(mirror.files(), archive.url, archive.sha256)
        return mirror.file(entry.sha256) if entry is not None else None

    return find
