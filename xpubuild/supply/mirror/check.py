"""Verifies every file of a mirror: finds changed, truncated, removed and added files."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path

from xpubuild.supply.mirror.entries import MARK, MARK_TEXT, Entry
from xpubuild.supply.mirror.index import Manifest, derived_damage, read_committing, read_manifest, there
from xpubuild.supply.mirror.needs import set_damages
from xpubuild.supply.mirror.reading import Damage, compare, walk

Progress = Callable[[int], None]
_DEBRIS = ("tmp_", ".tmp-")


def check(
    root: Path,
    only: Collection[str] | None = None,
    progress: Progress | None = None,
) -> list[Damage]:
    """Return all damage of the mirror at ``root``, or of the entries with the ids ``only``.

    ``mirror.json``, ``index.json`` and ``wheels.html`` are named among ``only`` like entries, by their file
    names.

    A verified change of a killed writer, which waits to be put in place, is valid too.
    """
    manifest, coming = read_manifest(root), read_committing(root)
    lost = [*manifest.damages, *_without_entry(root, manifest, coming)]
    reported = {damage.entry for damage in lost}
    damages = [damage for damage in (*_mark(root), *lost) if only is None or damage.entry in only]
    entries = [entry for name, entry in manifest.entries.items() if only is None or name in only]
    for entry in entries:
        damages += _entry(root, entry, coming.get(entry.id, []), progress)
    here = [*manifest.entries.values(), *(item for items in coming.values() for item in items)]
    damages += set_damages(root, [entry for entry in entries if entry.kind == "set"], here, reported)
    # A change writes index and page at its end.
    derived = derived_damage(root, manifest) if not coming else ()
    return damages + [damage for damage in derived if only is None or damage.entry in only]


def is_marked(root: Path) -> bool:
    """Whether the folder has the mark of a mirror, every byte of it."""
    try:
        return (root / MARK).is_file() and (root / MARK).read_bytes() == MARK_TEXT
    except OSError:
        return False


def _mark(root: Path) -> Iterator[Damage]:
    if not is_marked(root):
        yield Damage(MARK, "is damaged", "it does not mark the folder as a mirror", MARK)


def _entry(root: Path, entry: Entry, coming: list[Entry], progress: Progress | None) -> Iterator[Damage]:
    others = {record.path: record for item in coming for record in item.files}
    # Once all of a change is in place, what it leaves out of an entry may be gone.
    is_done = any(not any(compare(root, one) for one in item.files) for item in coming)
    for record in () if is_done else entry.files:
        why = compare(root, record, progress)
        other = others.get(record.path)
        if why and (other is None or compare(root, other)):
            what = "is missing" if why == "it does not exist" else "is damaged"
            yield Damage(record.path, what, why, entry.id)
    if entry.folder:
        known = {record.path for record in entry.files}
        for inside, _ in walk(root / entry.folder):
            path = f"{entry.folder}/{inside}"
            if path in known or (path in others and not compare(root, others[path])):
                continue
            if not (entry.kind == "git" and _is_debris(inside)):
                yield Damage(path, "does not belong here", _why_extra(entry), entry.id)


def _why_extra(entry: Entry) -> str:
    if entry.kind == "git":
        return "the index does not list it; a fetch was interrupted, or it changes what git reads"
    return "the index does not list it"


def _is_debris(inside: str) -> bool:
    """Whether a file is a leftover of a killed fetch, which git ignores."""
    folder, _, name = inside.rpartition("/")
    return folder.startswith("objects/") and name.startswith(_DEBRIS)


def _without_entry(root: Path, manifest: Manifest, coming: Mapping[str, list[Entry]]) -> Iterator[Damage]:
    """Name what is here and has lost its entry."""
    known = {*manifest.entries, *coming, *(damage.entry for damage in manifest.damages)}
    for identifier, path in there(root):
        if identifier not in known:
            yield Damage(path, "is not listed", "the index has no entry of it", identifier)
