"""Verifies every file of a depot, and lists again what is sound: one check and one repair for all bytes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from xpubuild.engine.files import remove_tree
from xpubuild.engine.process import Cancel
from xpubuild.errors import SourceIntegrityError
from xpubuild.supply.depot.bytes import Damage, Progress, compare, compare_text, scan, walk
from xpubuild.supply.depot.entries import (
    FILES,
    GIT,
    INDEX,
    PAGE,
    SETS,
    WHEELS,
    DepotSet,
    Entry,
    EntryError,
    Index,
    file_id,
    git_id,
    index_of,
    is_commit,
    read_set,
)
from xpubuild.supply.depot.folder import Depot, damage_error, page
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.repositories import foreign, repositories_in, rescued
from xpubuild.supply.depot.trust import Trust
from xpubuild.supply.git.bare import BareRepository, RepositoryStore
from xpubuild.supply.git.git import Git
from xpubuild.untrusted import UntrustedError, read_bytes


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
    asked = cancel or Cancel()
    if is_indexed(path):
        depot = Depot.open(path, damaged=True)
        if repair:
            with depot.writing(cancel=cancel):
                depot.publish(relisted(depot, damages(depot, progress=progress), Git.open(), asked))
        found = damages(depot, progress=progress)
    else:
        found = list(_unsound(path, asked))
    return found + list(_wheels(path, asked))


def is_indexed(path: Path) -> bool:
    """Whether a folder is a depot with an index, or one that has lost it."""
    return any(os.path.lexists(path / name) for name in (INDEX, FILES, SETS))


def is_depot(path: Path) -> bool:
    """Whether a folder is a mirror or a store, and no workspace."""
    return is_indexed(path) or ((path / WHEELS).is_dir() and not (path / "journal.db").exists())


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
    found: list[Damage] = []
    for entry in index.entries.values():
        if only is None or entry.id in only:
            found += _entry(depot.path, entry, only is None, progress)
    for one in index.sets.values():
        if only is None or one.needs <= {*only}:
            found += _set(depot.path, one, index)
    found += _page(depot.path, index, only is None)
    return found + (list(_unlisted(depot, index)) if only is None else [])


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


def _entry(root: Path, entry: Entry, is_all: bool, progress: Progress | None) -> Iterator[Damage]:
    records = {record.path: compare(root, record, progress) for record in entry.files}
    texts = {path: _derived(root, path, text) for path, text in entry.derived().items()}
    for path, why in {**records, **texts}.items():
        if why:
            yield Damage(path, "is missing" if why == "it does not exist" else "is damaged", why, entry.id)
    if entry.kind == "git":
        for path, is_harmless in foreign(root, entry.folder, {*records, *texts}):
            if is_all or not is_harmless:
                why = "the index does not list it; a fetch was interrupted, or it changes what git reads"
                yield Damage(path, "does not belong here", why, entry.id)
    else:
        for inside, _ in walk(root / entry.folder):
            if inside != entry.name:
                yield Damage(
                    f"{entry.folder}/{inside}", "does not belong here", "the index does not list it", entry.id
                )


def _derived(root: Path, path: str, text: bytes) -> str:
    """Return what is wrong with a file that follows from pins; ``shallow`` may list more than these."""
    why = compare_text(root, path, text)
    if why and path.endswith("/shallow"):
        with contextlib.suppress(OSError, UntrustedError, UnicodeDecodeError):
            lines = read_bytes(root / path).decode("ascii").splitlines(keepends=True)
            if {*text.decode().splitlines(keepends=True)} <= {*lines} and all(
                line.endswith("\n") and is_commit(line[:-1]) for line in lines
            ):
                return ""
    return why


def _set(root: Path, one: DepotSet, index: Index) -> Iterator[Damage]:
    why = compare_text(root, one.path, one.text())
    if why:
        yield Damage(one.path, "is damaged", why, one.name)
    for use in {(use.id, use.commit): use for use in one.repositories}.values():
        entry = index.entries.get(use.id)
        if entry is None or use.commit not in entry.pins:
            why = f"an earlier fetch ({one.name}) needs commit {use.commit} of {use.url}, which is missing"
            yield Damage(f"{GIT}/{use.id.partition('-')[2]}", f"lacks {use.commit}", why, use.id)
    for entry in one.files:
        if entry.id not in index.entries:
            why = f"an earlier fetch ({one.name}) needs the file {entry.name}, which is missing"
            yield Damage(entry.files[0].path, "is missing", why, entry.id)


def _page(root: Path, index: Index, is_all: bool) -> Iterator[Damage]:
    wanted = page(index)
    if b"<a " not in wanted and not os.path.lexists(root / PAGE):
        return
    why = compare_text(root, PAGE, wanted)
    if why and not is_all:
        # A fetch that is not done yet has written its links, and not the index.
        with contextlib.suppress(OSError, UntrustedError):
            if {*wanted.splitlines()} <= {*read_bytes(root / PAGE).splitlines()}:
                return
    if why:
        yield Damage(PAGE, "is missing" if why == "it does not exist" else "is damaged", why, PAGE)


def _unlisted(depot: Depot, index: Index) -> Iterator[Damage]:
    """Yield what is not listed; what a fetch that failed has left is sound, and no damage."""
    root, why = depot.path, "the index has no entry of it"
    listed = {one.path for one in index.sets.values()}
    for item in scan(root / SETS):
        if f"{SETS}/{item.name}" not in listed:
            yield Damage(f"{SETS}/{item.name}", "is not listed", why, item.name)
    for item in scan(root / FILES):
        identifier = file_id(item.name)
        if identifier not in index.entries and depot.found_file(item.name) is None:
            yield Damage(f"{FILES}/{item.name}", "is not listed", why, identifier)
    for name in repositories_in(root):
        folder = f"{GIT}/{name}"
        known = {f"{folder}/{inside}" for inside in ("HEAD", "config", "shallow")}
        for path, is_harmless in foreign(root, folder, known) if git_id(name) not in index.entries else ():
            if not is_harmless:
                yield Damage(path, "is not listed", why, git_id(name))


def relisted(depot: Depot, found: Collection[Damage], git: Git, cancel: Cancel) -> Index:
    """Return an index of all that is sound in a depot, listed or not; ``found`` is its damage.

    The caller locks it. Objects, files and sets are named by their content, so nothing else has to be
    trusted. Files with another content, and what could change what git reads, are removed.
    """
    root, old = depot.path, Index()
    with contextlib.suppress(SourceIntegrityError):
        old = depot.index()
    sets = [*_sets(root), *old.sets.values()]
    known = {entry.id: entry for one in sets for entry in one.files} | dict(old.entries)
    broken = {damage.entry for damage in found}
    entries = [entry for entry in old.entries.values() if entry.id not in broken]
    listed = {entry.id for entry in entries}
    for item in scan(root / FILES):
        if file_id(item.name) not in listed:
            cancel.stop_here()
            entry = depot.found_file(item.name)
            if entry is None:
                remove_tree(Path(item.path))
                continue
            as_known = known.get(entry.id, entry)
            entries.append(as_known if as_known.name == entry.name else entry)
            for inside, below in walk(root / entry.folder):
                if inside != entry.name:
                    remove_tree(Path(below.path))
    for name in repositories_in(root):
        if git_id(name) not in listed:
            uses = [use for one in sets for use in one.repositories if use.id == git_id(name)]
            before = known.get(git_id(name))
            url = before.url if before else next((use.url for use in uses), "")
            pins = [use.commit for use in uses] + list(before.pins if before else ())
            named = [(use.ref, use.commit) for use in uses if use.ref] + list(before.named if before else ())
            sketch = Entry("git", name, (), url, pins=tuple(pins), named=tuple(named))
            entry = rescued(root, sketch, git, cancel)
            entries += [entry] if entry is not None else []
    index = index_of(entries, sets)
    kept = {one.path for one in index.sets.values()}
    for item in scan(root / SETS):
        if f"{SETS}/{item.name}" not in kept:
            remove_tree(Path(item.path))
    return index


def _sets(root: Path) -> Iterator[DepotSet]:
    for item in scan(root / SETS):
        with contextlib.suppress(EntryError, UntrustedError, OSError):
            one = read_set(read_bytes(Path(item.path)))
            if one.path == f"{SETS}/{item.name}":
                yield one


def _unsound(root: Path, cancel: Cancel) -> Iterator[Damage]:
    """Yield the repositories of the user's own cache in which git finds damage."""
    repositories = RepositoryStore(root, Git.open(), offline=True, cancel=cancel)
    for name in repositories_in(root):
        silent: Callable[[str], None] = lambda _: None  # noqa: E731
        if not BareRepository(repositories, "", root / GIT / name).is_sound(silent):
            yield Damage(f"{GIT}/{name}", "is damaged", "git finds objects that are missing or changed")


def _wheels(root: Path, cancel: Cancel) -> Iterator[Damage]:
    """Yield the built wheels that are not what their records say; whom to believe is another question."""
    store = FolderStore(root, Trust(frozenset({os.path.realpath(root)}), frozenset()))
    for path, record in store.records():
        cancel.stop_here()
        why = record if isinstance(record, str) else store.wrong(record)
        if why:
            yield Damage(path.relative_to(root).as_posix(), "is damaged", why)
