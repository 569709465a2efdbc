"""A mirror: a plain folder with everything that builds fetch, each file listed with its hash.

``git/`` bare repositories, ``files/<sha256>/<name>`` packages, ``sets/`` what each fetch needed,
``index.json`` an entry for each of them. From it follows ``wheels.html``, links for pip. Readers only read:
the folder may be mounted read-only. Writers exclude each other by flock on ``.lock``.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterator
from pathlib import Path

from xpubuild.engine.files import explained, remove_tree, sync_filesystems, write_atomic
from xpubuild.engine.places import make_shared, share
from xpubuild.engine.process import Cancel
from xpubuild.engine.redact import recordable
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import SourceIntegrityError, UsageError, XpuBuildError
from xpubuild.supply.git.bare import RepositoryStore
from xpubuild.supply.git.git import Git, Report
from xpubuild.supply.git.locks import locked
from xpubuild.supply.git.urls import mirror_name
from xpubuild.supply.mirror import check as checking
from xpubuild.supply.mirror.entries import (
    FILES,
    GIT,
    INDEX,
    MARK,
    MARK_TEXT,
    PAGE,
    SETS,
    WHEELS,
    Entry,
    EntryError,
    FileRecord,
    Kind,
    entry_id,
    is_name,
    is_sha256,
    sealed,
)
from xpubuild.supply.mirror.failures import damage_error, no_file, no_mirror
from xpubuild.supply.mirror.foreign import require_no_way_out
from xpubuild.supply.mirror.index import read_manifest, write_index
from xpubuild.supply.mirror.naming import described
from xpubuild.supply.mirror.needs import set_of
from xpubuild.supply.mirror.reading import COMMITTING, STAGING, Damage, compare, digest_of, scan
from xpubuild.supply.mirror.repositories import pins_of, records_of
from xpubuild.supply.mirror.sets import MirrorSet
from xpubuild.supply.mirror.writing import Stage, recover, staged

__all__ = ["Damage", "Mirror", "damage_error"]

_OURS = frozenset({MARK, INDEX, GIT, FILES, SETS, PAGE, WHEELS, ".lock", ".downloads"})
_DRAFTS = (STAGING, COMMITTING, f".{MARK}.", f".{INDEX}.", DRAFT)
_LOCK = ".lock"
#: Where mirrors of earlier versions have their entries.
_EARLIER = "manifest"
#: Downloads on their way; what is cut stays here, to be carried on with.
DOWNLOADS = ".downloads"


class Mirror:
    """The mirror at ``path``. Safe to share between threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._guard = threading.RLock()
        self._depth = 0
        self._held = contextlib.ExitStack()

    @classmethod
    def open(cls, path: Path, *, create: bool = False, damaged: bool = False) -> Mirror:
        """Return the mirror at ``path``; ``damaged`` accepts one whose mark is not sound, to check it.

        Raises:
            UsageError: the folder holds somebody's files and is no mirror, or one of an earlier version.
            FetchError: there is no such folder, and ``create`` is not set.
            SourceIntegrityError: its mark is damaged.
            NoSpaceError, ToolchainError: it cannot be made or read.
        """
        mirror = cls(path)
        if path.exists() and not path.is_dir():
            raise UsageError(f"the mirror {path} is not a folder", fix="pass a folder with --mirror")
        there = {item.name for item in scan(path) if not item.name.startswith(_DRAFTS)}
        if _EARLIER in there and MARK in there:
            raise UsageError(
                f"{path} is a mirror of an earlier version of xpubuild",
                why=f"it has the folder {_EARLIER}; this version neither reads nor changes it",
                fix="pass a new folder with --mirror, and fetch the recipes into it",
            )
        is_known = bool(there & {MARK, INDEX})
        if there - _OURS and not is_known:
            names = ", ".join(sorted(there - _OURS)[:5])
            raise UsageError(
                f"{path} is not a mirror of xpubuild",
                why=f"it has {names}, which xpubuild did not make",
                fix="pass an empty or new folder, or a mirror, with --mirror",
            )
        if not checking.is_marked(path):
            mirror._mark(create, damaged, is_new=not is_known)
        return mirror

    def _mark(self, create: bool, damaged: bool, *, is_new: bool) -> None:
        if is_new and not create:
            raise no_mirror(self.path)
        if create:
            with explained(self.path, "making the mirror"):
                make_shared(self.path)
                write_atomic(self.path / MARK, MARK_TEXT)
        elif not damaged:
            raise damage_error(self.path, list(checking.check(self.path, only=[MARK])))

    # --- reading ---------------------------------------------------------------------------------------

    def entries(self) -> dict[str, Entry]:
        """Return all entries by id.

        Raises:
            SourceIntegrityError: the index is damaged.
        """
        manifest = read_manifest(self.path)
        if manifest.damages:
            raise damage_error(self.path, list(manifest.damages))
        return manifest.entries

    def files(self) -> list[Entry]:
        """Return the entries of all packages' files.

        Raises:
            SourceIntegrityError: the index is damaged.
        """
        return [entry for entry in self.entries().values() if entry.is_file]

    def entry(self, identifier: str) -> Entry | None:
        """Return one entry; None where there is none.

        Raises:
            SourceIntegrityError: the index is damaged.
        """
        return self.entries().get(identifier)

    def file(self, sha256: str) -> Path:
        """Return a file, every byte of it verified now.

        Raises:
            FetchError: the mirror does not have it.
            SourceIntegrityError: it is damaged or was removed; the message names it.
        """
        identifier = entry_id("wheel", sha256)
        entry = self.entry(identifier) if is_sha256(sha256) else None
        if entry is None:
            raise no_file(self.path, sha256)
        record = entry.files[0]
        why = compare(self.path, record)
        if why:
            raise damage_error(self.path, [Damage(record.path, "is damaged", why, identifier)])
        return self.path / record.path

    def sets(self) -> list[MirrorSet]:
        """Return what each fetch needed, every byte verified.

        Raises:
            SourceIntegrityError: a set or its entry is damaged.
        """
        found = []
        for entry in self.entries().values():
            if entry.kind != "set":
                continue
            try:
                found.append(set_of(self.path, entry))
            except EntryError as error:
                wrong = Damage(entry.files[0].path, "is damaged", str(error), entry.id)
                raise damage_error(self.path, [wrong]) from error
        return found

    def git_store(self, git: Git, *, offline: bool = False, cancel: Cancel | None = None) -> RepositoryStore:
        """Return the store of the mirror's own repositories, to fill them; call ``note_repository`` after.

        To read from a mirror, name it among ``RepositoryStore.stocks`` of a store elsewhere.
        """
        return RepositoryStore(self.path, git, offline=offline, cancel=cancel or Cancel())

    def check(
        self, only: Collection[str] | None = None, progress: checking.Progress | None = None
    ) -> list[Damage]:
        """Look at every byte and return all damage; ``only`` are the ids of the entries to look at."""
        return checking.check(self.path, only, progress)

    # --- writing ---------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def writing(self, *, cancel: Cancel | None = None, report: Report | None = None) -> Iterator[None]:
        """Keep other writers out; inside, what a killed writer left is finished or gone. Nests.

        Raises:
            InterruptedByUserError: ``cancel`` was set while waiting.
            NoSpaceError, ToolchainError: the mirror cannot be written to.
        """

        def waiting() -> None:
            if report is not None:
                report(f"waiting for another xpubuild that writes to the mirror {self.path}")

        with self._guard:
            if self._depth == 0:
                require_no_way_out(self.path)
                self._held.enter_context(locked(self.path / _LOCK, cancel=cancel, on_wait=waiting))
                self._begin()
            self._depth += 1
        try:
            yield
        except BaseException:
            # What went wrong is what is told; the next writer mends the index.
            with contextlib.suppress(XpuBuildError):
                self._leave()
            raise
        else:
            self._leave()

    def _leave(self) -> None:
        with self._guard:
            self._depth -= 1
            if self._depth == 0:
                with self._held.pop_all():
                    self._end()

    def _begin(self) -> None:
        try:
            recover(self.path)
        except BaseException:
            self._held.close()
            raise

    def _end(self) -> None:
        # From where the user's cache is made alike; a mirror is nothing that backups leave out.
        with explained(self.path, "changing the mirror"):
            (self.path / GIT / "CACHEDIR.TAG").unlink(missing_ok=True)
            share(self.path)
        sync_filesystems([self.path])

    def rewrite(self, *more: Entry, without: str = "") -> None:
        """Write index and page anew from the entries that are sound, and with ``more`` or ``without`` one.

        Raises:
            NoSpaceError, ToolchainError: the mirror cannot be written to.
        """
        with self.writing():
            entries = {**read_manifest(self.path).entries, **{entry.id: entry for entry in more}}
            write_index(self.path, (entry for name, entry in entries.items() if name != without))

    @contextlib.contextmanager
    def stage(self) -> Iterator[Stage]:
        """Begin a change of several entries; nothing of it is seen before its ``publish``."""
        with self.writing(), self._guard, staged(self.path) as change:
            yield change

    def add_file(
        self,
        source: Path,
        *,
        sha256: str,
        name: str,
        kind: Kind,
        dist: str = "",
        version: str = "",
        url: str = "",
        move: bool = False,
    ) -> Path:
        """Put a package's file into the mirror, where it is not there already and sound; return its place.

        ``move`` takes ``source`` away, which must be on the file system of the mirror; else it is copied.

        Raises:
            SourceIntegrityError: ``source`` has another sha256, or its name is none that a file may have.
            NoSpaceError, ToolchainError: the mirror cannot be written to.
        """
        if not (is_name(name) and is_sha256(sha256)):
            raise SourceIntegrityError(
                f"'{name}' cannot be put into a mirror",
                why="its name or sha256 is not that of a package",
                fix="check the index that lists it",
            )
        with self.writing():
            known = self._sound_file(sha256)
            if known is not None:
                return known
            with self.stage() as change:
                record = (change.take if move else change.copy)(f"{FILES}/{sha256}/{name}", source)
                if record.sha256 != sha256:
                    raise SourceIntegrityError(
                        f"{name} is not the requested file",
                        why=f"its sha256 is {record.sha256}, expected {sha256}",
                        fix=(
                            "fetch again; if this error repeats, the server has another file than the "
                            "locked one"
                        ),
                        evidence={"file": name, "found": record.sha256, "expected": sha256, "url": url},
                    )
                change.enter(
                    Entry(kind, name, (record,), recordable(url, tokens_in_path=True), dist, version)
                )
                change.publish()
        return self.path / record.path

    def reenter(self, sha256: str) -> bool:
        """Write the lost entry of a file anew, where the file has its hash; else return False."""
        for item in scan(self.path / FILES / sha256):
            name = item.name
            if is_sha256(sha256) and is_name(name) and item.is_file(follow_symlinks=False):
                size, digest = digest_of(Path(item.path))
                if digest == sha256:
                    record = FileRecord(f"{FILES}/{sha256}/{name}", size, digest)
                    with self.stage() as change:
                        kind, dist, version = described(name)
                        change.enter(Entry(kind, name, (record,), "", dist, version))
                        change.publish()
                    return True
        return False

    def _sound_file(self, sha256: str) -> Path | None:
        with contextlib.suppress(SourceIntegrityError):
            entry = self.entry(entry_id("wheel", sha256))
            if entry is not None and not compare(self.path, entry.files[0]):
                return self.path / entry.files[0].path
        remove_tree(self.path / FILES / sha256)
        return None

    def add_set(self, needed: MirrorSet) -> None:
        """Write down what a fetch needed.

        Raises:
            NoSpaceError, ToolchainError: the mirror cannot be written to.
        """
        with self.stage() as change:
            record = change.write(f"{SETS}/{needed.name}.json", sealed(needed.to_json()))
            change.enter(Entry("set", needed.name, (record,)))
            change.publish()

    def note_repository(self, url: str, commit: str) -> Entry:
        """Write the entry of the repository of ``url``, which holds ``commit`` now.

        Raises:
            SourceIntegrityError: a reference of it is damaged, a file of it is gone, or it lacks the commit.
            NoSpaceError, ToolchainError: the mirror cannot be written to.
        """
        name = mirror_name(url, len(commit))
        with self.writing():
            old = self._old_entry(name)
            with locked((self.path / GIT / name).with_suffix(".lock"), shared=True):
                records = records_of(self.path, name, old)
            pins = pins_of(records, name)
            if commit not in pins:
                raise SourceIntegrityError(
                    f"the repository {self.path / GIT / name} has no ref for commit {commit}",
                    why="the ref that keeps the commit was removed",
                    fix="run the same command again",
                )
            ordered = tuple(records[path] for path in sorted(records))
            entry = Entry("git", name, ordered, recordable(url), pins=tuple(sorted(pins)))
            if entry != old:
                self.rewrite(entry)
        return entry

    def _old_entry(self, name: str) -> Entry | None:
        with contextlib.suppress(SourceIntegrityError):
            return self.entry(entry_id("git", name))
        return None

    def drop(self, identifier: str, folder: str = "") -> None:
        """Remove a damaged entry and its folder, to be fetched anew; a set goes with its file."""
        if identifier.startswith("set-"):
            folder = f"{SETS}/{identifier.removeprefix('set-')}.json"
        with self.writing():
            if folder:
                remove_tree(self.path / folder)
            self.rewrite(without=identifier)
