"""Whether a mirror has what its sets need: the commits by the entries' pins, the files by their ids."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from xpubuild.supply.mirror.entries import FILES, GIT, Entry, EntryError, entry_id
from xpubuild.supply.mirror.reading import Damage, compare
from xpubuild.supply.mirror.sets import MirrorSet, read_set


def set_of(root: Path, entry: Entry) -> MirrorSet:
    """Return the set of a set's entry, every byte of it verified.

    Raises:
        EntryError: its file is damaged, or holds what a set does not have.
    """
    record = entry.files[0]
    why = compare(root, record)
    if why:
        raise EntryError(why)
    return read_set((root / record.path).read_bytes())


def set_damages(
    root: Path, sets: Iterable[Entry], here: Iterable[Entry], reported: Collection[str]
) -> Iterator[Damage]:
    """Yield what the sets need that is not ``here``, and the sets that cannot be read.

    ``reported`` are the ids of entries whose damage is named already: what they lack is not said twice.
    """
    present = list(here)
    pins: dict[str, set[str]] = {}
    for other in present:
        pins.setdefault(other.id, set()).update(other.pins)
    for entry in sets:
        if compare(root, entry.files[0]):
            continue  # named where the files are compared
        try:
            needed = set_of(root, entry)
        except EntryError as error:
            yield Damage(entry.files[0].path, "is damaged", str(error), entry.id)
            continue
        yield from _lacking(entry, needed, pins, reported)


def _lacking(
    entry: Entry, needed: MirrorSet, pins: dict[str, set[str]], reported: Collection[str]
) -> Iterator[Damage]:
    for use in {(use.id, use.commit): use for use in needed.repositories}.values():
        if use.commit not in pins.get(use.id, ()) and (use.id in pins or use.id not in reported):
            why = f"an earlier fetch ({entry.name}) needs commit {use.commit} of {use.url}, which is missing"
            yield Damage(f"{GIT}/{use.id.partition('-')[2]}", f"lacks {use.commit}", why, use.id)
    for sha256 in needed.files:
        identifier = entry_id("wheel", sha256)
        if identifier not in pins and identifier not in reported:
            why = f"an earlier fetch ({entry.name}) needs the file {sha256}, which is missing"
            yield Damage(f"{FILES}/{sha256}", "is missing", why, entry.id)
