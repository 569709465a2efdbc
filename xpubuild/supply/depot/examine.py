"""The files of a depot, every byte verified: what is damaged, and an index of all that is sound.

Readers take no lock. What a fetch that is not done yet has written is no damage to them: objects and
references come before the index that lists them.
"""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree
from xpubuild.engine.process import Cancel
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.depot.entries import (
    FILES,
    INDEX,
    NAMED,
    OBJECT,
    PAGE,
    PINS,
    SETS,
    WHEELS,
    DepotSet,
    Entry,
    EntryError,
    FileRecord,
    Index,
    index_of,
    read_set,
)  # fmt: skip
from xpubuild.supply.depot.folder import (
    Damage,
    Depot,
    Progress,
    compare,
    compare_text,
    damage_error,
    digest_of,
    page,
    places_in,
    put,
    repositories_in,
    scan,
    walk,
)
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.location import Trust
from xpubuild.supply.git.bare import BareRepository, RepositoryStore
from xpubuild.supply.git.git import Git, locked
from xpubuild.supply.git.pin import is_id, is_ref
from xpubuild.untrusted import UntrustedError, read_bytes

_GONE = "it does not exist"
_UNLISTED = "the index does not list it"


def check_depot(
    path: Path, *, repair: bool = False, progress: Progress | None = None, cancel: Cancel | None = None
) -> list[Damage]:
    """Return what is damaged in a depot, every byte of it hashed: wheels, files, repositories, sets, index.

    ``repair`` first lists what is sound and not listed (of two depots that were copied into one folder, the
    union), and writes what follows from it. It needs no network: what is lost is returned, for a fetch.
    In the user's own cache, which has no index, git hashes the objects of the repositories.

    Raises:
        UsageError, FetchError: there is no depot, or one of another version.
        NoSpaceError, ToolchainError, InterruptedByUserError.
    """
    asked, found = Cancel(cancel), list[Damage]()
    if is_indexed(path):
        depot = Depot.open(path, damaged=True)
        if repair:
            with depot.writing(cancel=asked):
                depot.publish(relisted(depot, damages(depot, progress=progress), Git.open(), asked))
        found += damages(depot, progress=progress)
    else:
        repositories = RepositoryStore(path, Git.open(), offline=True, cancel=asked)
        for place in repositories_in(path):
            if not BareRepository(repositories, "", path / place).is_sound(lambda _: None):
                found.append(Damage(place, "is damaged", "git finds objects that are missing or changed"))
    # Whether built wheels are what their records say; whom to believe is another question.
    store = FolderStore(path, Trust(frozenset({os.path.realpath(path)}), frozenset()))
    for file, record in store.records():
        asked.stop_here()
        if why := record if isinstance(record, str) else store.wrong(record):
            found.append(Damage(file.relative_to(path).as_posix(), "is damaged", why))
    return found


def is_indexed(path: Path) -> bool:
    """Whether a folder is a depot with an index, or one that has lost it."""
    return any(os.path.lexists(path / name) for name in (INDEX, FILES, SETS))


def is_depot(path: Path) -> bool:
    """Whether a folder is a mirror or a store, and no workspace."""
    return is_indexed(path) or ((path / WHEELS).is_dir() and not (path / "journal.db").exists())


def require_sound(
    depot: Depot, only: Collection[str] | None = None, progress: Progress | None = None
) -> None:
    """Refuse a damaged depot.

    Raises:
        SourceIntegrityError: there is damage; the message names it.
    """
    found = damages(depot, only, progress)
    if found:
        raise damage_error(depot.path, found)


def damages(
    depot: Depot, only: Collection[str] | None = None, progress: Progress | None = None
) -> list[Damage]:
    """Return all damage of what the index lists, or of the entries with the ids ``only`` and their sets.

    Without ``only``, what is not listed is damage too; with it, that may be of a fetch that is not done yet.
    """
    try:
        index = depot.index()
    except SourceIntegrityError as error:
        return [Damage(**item) for item in error.evidence["damaged"]]
    root, is_all = depot.path, only is None
    found: list[Damage] = []
    for entry in index.entries.values():
        if only is None or entry.id in only:
            found += _entry(root, entry, is_all, progress)
    for one in index.sets.values():
        if only is None or one.needs <= {*only}:
            found += _set(root, one, index)
    wanted = page(index)
    if b"<a " in wanted or os.path.lexists(root / PAGE):
        # A fetch that is not done yet has written its links, and not the index.
        why = compare_text(root, PAGE, wanted)
        if why and not (not is_all and {*wanted.splitlines(keepends=True)} <= _lines(root / PAGE)):
            found.append(Damage(PAGE, "is missing" if why == _GONE else "is damaged", why, PAGE))
    return found + (list(_unlisted(depot, index)) if is_all else [])


def _lines(path: Path) -> set[bytes]:
    with contextlib.suppress(OSError, UntrustedError):
        return {*read_bytes(path).splitlines(keepends=True)}
    return set()


def _entry(root: Path, entry: Entry, is_all: bool, progress: Progress | None) -> Iterator[Damage]:
    wrong = {record.path: compare(root, record, progress) for record in entry.files}
    for path, text in entry.derived().items():
        wrong[path] = compare_text(root, path, text)
        if path.endswith("/shallow"):  # it may list more than these pins
            more = _lines(root / path)
            ids = (line.decode("ascii", "replace").removesuffix("\n") for line in more)
            if {*text.splitlines(keepends=True)} <= more and all(map(is_id, ids)):
                wrong[path] = ""
    for path, why in wrong.items():
        if why:
            yield Damage(path, "is missing" if why == _GONE else "is damaged", why, entry.id)
    for path, is_harmless in _foreign(root, entry.id, wrong):
        if entry.kind != "git":
            yield Damage(path, "does not belong here", _UNLISTED, entry.id)
        elif is_all or not is_harmless:
            why = f"{_UNLISTED}; a fetch was interrupted, or it changes what git reads"
            yield Damage(path, "does not belong here", why, entry.id)


def _set(root: Path, one: DepotSet, index: Index) -> Iterator[Damage]:
    why = compare_text(root, one.path, one.text())
    if why:
        yield Damage(one.path, "is damaged", why, one.path)
    needs = f"an earlier fetch ({one.name}) needs"
    for use in {(use.id, use.commit): use for use in one.repositories}.values():
        if not index.has(use):
            why = f"{needs} commit {use.commit} of {use.url}, which is missing"
            yield Damage(use.id, f"lacks {use.commit}", why, use.id)
    for entry in one.files:
        if entry.id not in index.entries:
            why = f"{needs} the file {entry.name}, which is missing"
            yield Damage(entry.files[0].path, "is missing", why, entry.id)


def _unlisted(depot: Depot, index: Index) -> Iterator[Damage]:
    """Yield what is not listed; what a fetch that failed has left is sound, and no damage."""
    root, what = depot.path, ("is not listed", "the index has no entry of it")
    listed = {*index.entries, *(one.path for one in index.sets.values())}
    for place in (*places_in(root, SETS), *places_in(root, FILES)):
        if place not in listed and depot.found_file(place) is None:
            yield Damage(place, *what, place)
    for place in repositories_in(root):
        if place not in listed:
            known = {f"{place}/{inside}" for inside in ("HEAD", "config", "shallow")}
            foreign = (path for path, is_harmless in _foreign(root, place, known) if not is_harmless)
            yield from (Damage(path, *what, place) for path in foreign)


def _foreign(root: Path, folder: str, known: Collection[str]) -> Iterator[tuple[str, bool]]:
    """Yield (path, is harmless) of what is in the folder of an entry and not ``known``.

    xpubuild's objects and references come before the index lists them; others may change what git reads.
    Leftovers that git ignores do not count.
    """
    for inside, item in walk(root / folder):
        path = f"{folder}/{inside}"
        is_debris = inside.startswith("objects/") and item.name.startswith(("tmp_", ".tmp-", DRAFT))
        if path not in known and not is_debris:
            yield path, inside.startswith("refs/xpubuild/") or OBJECT.fullmatch(inside) is not None


def relisted(depot: Depot, found: Collection[Damage], git: Git, cancel: Cancel) -> Index:
    """Return an index of all that is sound in a depot, listed or not; ``found`` is its damage.

    The caller locks it. Objects, files and sets are named by their content, so nothing else has to be
    trusted. Files with another content, and what could change what git reads, are removed.
    """
    root, old = depot.path, depot.listed()
    sets = [*_sets(root), *old.sets.values()]
    known = {entry.id: entry for one in sets for entry in one.files} | dict(old.entries)
    broken = {damage.entry for damage in found}
    entries = {place: entry for place, entry in old.entries.items() if place not in broken}
    for place in places_in(root, FILES):
        if place in entries:
            continue
        cancel.stop_here()
        entry = depot.found_file(place)
        if entry is None:
            remove_tree(root / place)
            continue
        as_known = known.get(place, entry)
        entries[place] = as_known if as_known.name == entry.name else entry
        for path, _ in _foreign(root, place, {entry.files[0].path}):
            remove_tree(root / path)
    for place in repositories_in(root):
        if place not in entries:
            uses = [use for one in sets for use in one.repositories if use.id == place]
            url = next((use.url for use in uses), "")
            before = known.get(place) or Entry("git", Path(place).name, (), url)
            pins = (*(use.commit for use in uses), *before.pins)
            named = (*((use.ref, use.commit) for use in uses if use.ref), *before.named)
            rescued = _rescued(root, replace(before, files=(), pins=pins, named=named), git, cancel)
            if rescued is not None:
                entries[place] = rescued
    index = index_of(entries.values(), sets)
    for place in {*places_in(root, SETS)} - {one.path for one in index.sets.values()}:
        remove_tree(root / place)
    return index


def _sets(root: Path) -> Iterator[DepotSet]:
    for place in places_in(root, SETS):
        with contextlib.suppress(EntryError, UntrustedError, OSError):
            one = read_set(read_bytes(root / place))
            if one.path == place:
                yield one


def _rescued(root: Path, sketch: Entry, git: Git, cancel: Cancel) -> Entry | None:
    """Return the entry of a repository whose files are not those that were listed, where git finds it sound.

    ``sketch`` has pins and tags that it should keep. Objects are named by their content: where git hashes all
    of them, nothing else has to be trusted. Pins of which an object is lacking go; None where what remains is
    damaged.
    """
    folder, place = root / sketch.id, sketch.id
    pins, named = {*sketch.pins, *pins_in(root, place)}, (*named_in(root, place), *sketch.named)
    wanted = replace(sketch, pins=tuple(pins), named=named)
    # git needs the settings and the ends of history before it can be asked.
    if list_repository(root, wanted, None) is None:
        return None
    whole = tuple(pin for pin in wanted.pins if git.is_whole(folder, pin))
    entry = list_repository(root, replace(wanted, pins=whole), None)
    check = ["fsck", "--full", "--no-dangling", "--no-reflogs"]
    return entry if entry is not None and git.run(check, git_dir=folder, cancel=cancel).ok else None


def list_repository(root: Path, sketch: Entry, old: Entry | None) -> Entry | None:
    """Write the files of a repository that follow from its pins, and return its entry; None without objects.

    ``sketch`` is the entry without its objects. An object of ``old`` keeps the record that it has: damage is
    not made right by a second look.

    Raises:
        NoSpaceError, ToolchainError: it cannot be read or written.
    """
    folder = root / sketch.id
    known = {record.path: record for record in old.files} if old is not None else {}
    with locked(folder.with_suffix(".lock")), explained(folder, "changing the mirror"):
        inside = [path for path, _ in walk(folder) if OBJECT.fullmatch(path)]
        # A pack and its index are one thing; half of it is a leftover.
        stems = Counter(path.rpartition(".")[0] for path in inside if path.endswith((".pack", ".idx")))
        whole = [path for path in inside if "." not in path or stems[path.rpartition(".")[0]] > 1]
        paths = [f"{sketch.id}/{path}" for path in whole]
        records = tuple(known.get(path) or FileRecord(path, *digest_of(root / path)) for path in paths)
        kept = tuple(sorted({*sketch.pins}))
        if not records or not kept:
            return None
        tags = {ref: commit for ref, commit in sketch.named if commit in kept and is_ref(ref)}
        entry = replace(sketch, files=records, pins=kept, named=tuple(sorted(tags.items())))
        write_derived(root, entry)
    return entry


def write_derived(root: Path, entry: Entry) -> None:
    """Write what follows from the pins of a repository, and remove what it must not have; under its lock."""
    wanted = entry.derived()
    for path, _ in _foreign(root, entry.id, {*(record.path for record in entry.files), *wanted}):
        remove_tree(root / path)
    for path, text in wanted.items():
        put(root / path, text)


def pins_in(root: Path, place: str) -> list[str]:
    """Return the commits that the references of a repository keep."""
    return [item.name for item in scan(root / place / PINS) if is_id(item.name)]


def named_in(root: Path, place: str) -> Iterator[tuple[str, str]]:
    """Yield (tag, commit) of what was looked up."""
    for ref, _ in walk(root / place / NAMED):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            yield ref, (root / place / NAMED / ref).read_text("ascii").strip()
