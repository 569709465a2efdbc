"""Stores of built wheels: what a step of the plan asks of them, what is in one, what of it nobody uses."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from xpubuild.engine.files import fsync_dir
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.entries import FILES, GIT, SETS
from xpubuild.supply.depot.folder import repositories_in, scan, walk
from xpubuild.supply.depot.kept_wheels import FolderStore
from xpubuild.supply.depot.record import IDENTITY, RECORD, TAKEN, WHEEL, Record
from xpubuild.supply.git.edits import BARE

if TYPE_CHECKING:
    from xpubuild.supply.depot.served import Served

#: Makes the record of a wheel from the file, the evidence of its step and the commands that were run.
MakeRecord = Callable[[Path, Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], Record]
#: A place with kept wheels.
Store: TypeAlias = "FolderStore | Served"
_Answer = TypeVar("_Answer")


@frozen
class Found:
    """What the stores answered: the record and whose it is.

    ``unknown`` maps a store to why it gave no answer; ``differs`` says why a kept wheel is not taken: what of
    its build is another here.
    """

    record: Record | None = None
    store: Store | None = None
    unknown: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""


def look_up(stores: Sequence[Store], dist: str, key: str, seconds: float) -> Found:
    """Ask stores for a build; the first of them in order that has it counts.

    The user's own is asked first, and alone. The others are asked side by side, and one that has not answered
    after so many seconds is not waited for any longer: "unknown" is an answer.
    """
    given: dict[str, Record | str | None] = {}

    def ask(store: Store) -> None:
        given[store.name] = _answer(store, store.look, dist, key)

    for store in (store for store in stores if store.own):
        ask(store)
    if not any(isinstance(answer, Record) for answer in given.values()):
        others = [store for store in stores if not store.own]
        threads = [threading.Thread(target=ask, args=(store,), daemon=True) for store in others]
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        given |= {store.name: given.get(store.name, "it did not answer in time") for store in others}
    unknown = {name: answer for name, answer in given.items() if isinstance(answer, str)}
    for store in stores:
        if isinstance(answer := given.get(store.name), Record):
            return Found(answer, store, unknown)
    return Found(unknown=unknown)


def _answer(store: Store, ask: Callable[..., _Answer], *about: object) -> _Answer | str:
    """Return what a store answers, or why it is not used or failed."""
    try:
        return store.why_not() or ask(*about)
    except XpuBuildError as error:
        return f"{error.what}: {error.why}"
    except OSError as error:
        return str(error.strerror or error)


@dataclass
class WheelKeeper:
    """The keeper of a step that builds a wheel.

    ``writable`` are the stores to keep it in; ``again`` returns the identity as it is after the build: what
    decides it may have changed; ``record`` makes the record from a file and evidence, for ``kept_as``.
    """

    identity: str
    found: Found
    writable: Sequence[FolderStore]
    again: Callable[[], str]
    record: MakeRecord
    kept_as: Callable[[], str] | None = None
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return what the plan document says of it."""
        found = self.found
        return {
            "identity": self.identity,
            "answer": "kept" if found.record else "unknown" if found.unknown else "absent",
            "store": found.store.name if found.store else None,
            "wheel": found.record.file if found.record else None,
            "unknown": dict(found.unknown),
            "differs": found.differs,
        }

    def describe(self) -> str:
        """Return the same in a few words."""
        found = self.found
        if found.store is not None:
            return f"from the store {found.store.name}"
        differs = [f"a kept wheel differs in {found.differs}"] if found.differs else []
        return "; ".join((*self.unanswered(), *differs))

    def unanswered(self) -> tuple[str, ...]:
        """Return which stores gave no answer, and why, one line each."""
        return tuple(f"the store {name} is not used: {why}" for name, why in self.found.unknown.items())

    def take(self, stage: Path) -> dict[str, Any] | None:
        """Put the kept wheel into ``stage``; return the evidence, None where nothing is kept.

        Raises:
            SourceIntegrityError, FetchError: it is altered, or gone.
            NoSpaceError, ToolchainError: the stage cannot be written.
        """
        found = self.found
        if found.record is None or found.store is None:
            return None
        found.store.bring(found.record, stage)
        return {
            "proof": TAKEN, "store": found.store.name, "identity": self.identity,
            "sha256": found.record.sha256, "built": dict(found.record.built),
        }  # fmt: skip

    def refuse(self, why: str) -> None:
        """Learn that what was taken cannot be used."""
        self.refused = why

    def built(self) -> dict[str, Any]:
        """Return the identity of what is built here."""
        identity = self.kept_as() if self.kept_as is not None else self.identity
        refused = {"refused": self.refused} if self.refused else {}
        return {"proof": IDENTITY, "identity": identity, **refused}

    def keep(
        self,
        files: Sequence[Path],
        evidence: Sequence[Mapping[str, Any]],
        commands: Sequence[Mapping[str, Any]],
    ) -> Sequence[str]:
        """Keep the wheel in every store that can be written; return what the user should know.

        Raises:
            AuditError: the wheel is of use here alone.
            XpuBuildError: what decides the build cannot be worked out again.
        """
        if not self.writable or len(files) != 1:
            return ()
        if not any(item.get(BARE) for item in evidence):
            return ("the wheel is not kept in the store: its source tree was not proved before the build",)
        if self.again() != self.identity:
            return ("the wheel is not kept in the store: what decides it changed while it was built",)
        record, shown = self.record(files[0], evidence, commands), list[str]()
        for store in self.writable:
            if why := _answer(store, store.keep, record, files[0]):
                shown.append(f"{files[0].name} is not kept in the store {store.name}: {why}")
        return shown


_DAY_S = 86_400.0


@frozen
class CollectedFile:
    """A file of a store."""

    path: str
    size_bytes: int
    why: str
    """Why it can go."""


@frozen
class KeptWheel:
    """A wheel in a store; null is what a damaged record does not state."""

    identity: str
    """The build identity: sha256 of everything that decided the wheel."""
    distribution: str
    version: str | None
    file: str | None
    """The name of the wheel's file where it is installed from."""
    size_bytes: int | None
    created: str | None
    """When it was built, by the clock of that machine."""
    recipe: str | None
    problem: str
    """What is wrong with its record; empty where nothing is."""


@frozen
class StoreContents:
    """A folder with kept wheels."""

    store: str
    believed: bool
    """Whether an install takes wheels from it."""
    why: str
    """Why not; empty where it does."""
    writable: bool
    size_bytes: int
    wheels: tuple[KeptWheel, ...]


@frozen
class StoreSize:
    """How much is in a store."""

    store: str
    wheels: int
    repositories: int
    files: int
    """Packages and archives of a mirror."""
    sets: int
    """What fetches into a mirror needed."""
    size_bytes: int
    """All of these together."""
    why: str
    """Why an install takes nothing from it, such as that it is not there; empty where it does."""


def contents_of(store: FolderStore) -> StoreContents:
    """Return what is in a store; nothing where it is not believed."""
    why = store.why_not()
    wheels = () if why else tuple(_row(path, found) for path, found in store.records())
    return StoreContents(store.name, not why, why, store.can_write(), _size_of(store), wheels)


def _row(path: Path, found: Record | str) -> KeptWheel:
    identity, dist = path.stem, path.parent.name
    if isinstance(found, str):
        return KeptWheel(identity, dist, None, None, None, None, None, found)
    info = (found.built.get(key) for key in ("created", "recipe"))
    created, recipe = (text if isinstance(text, str) and text.isprintable() else None for text in info)
    return KeptWheel(identity, dist, found.version, found.file, found.size, created, recipe, "")


def _size_of(store: FolderStore) -> int:
    return sum(status.st_size for folder in store.folders() for _, status in _files(folder))


def size_of(store: FolderStore) -> StoreSize:
    """Return how much a store has of each kind; sizes are bytes."""
    root, wheels = store.root, sum(1 for _ in store.records())
    others = (item for name in (GIT, FILES, SETS) for _, item in walk(root / name))
    size = _size_of(store) + sum(item.stat(follow_symlinks=False).st_size for item in others)
    counts = wheels, len(repositories_in(root)), len(scan(root / FILES)), len(scan(root / SETS))
    return StoreSize(store.name, *counts, size, store.why_not())


def collectable(store: FolderStore, older_s: float) -> list[CollectedFile]:
    """Return what was neither kept nor taken for so long (seconds), records first.

    Damage and what a killed process left may go after a day. Only files of this user are collected.
    """
    now, me, found = time.time(), os.geteuid(), list[CollectedFile]()
    for folder in store.folders():
        kept: set[str] = set()
        statuses = {path.name: status for path, status in _files(folder)}
        ages = {name: now - status.st_mtime for name, status in statuses.items() if status.st_uid == me}
        for path, record in store.records(folder.name):
            # What is somebody else's has no age.
            age, damaged = ages.get(path.name, 0.0), isinstance(record, str)
            if age > (_DAY_S if damaged else older_s):
                why = f"damaged: {record}" if damaged else f"not used for {int(age // _DAY_S)} days"
                found.append(CollectedFile(str(path), statuses[path.name].st_size, why))
            elif isinstance(record, Record):
                kept.add(record.sha256)
        for name, age in ages.items():
            wheel, draft = WHEEL.fullmatch(name), name.startswith(DRAFT)
            why = "left by a process that was killed" if draft else "no record has it"
            if age > _DAY_S and (draft or (wheel is not None and wheel["sha256"] not in kept)):
                found.append(CollectedFile(str(folder / name), statuses[name].st_size, why))
    # A wheel goes after the records, so that nobody finds a record without its wheel for long.
    return sorted(found, key=lambda item: (not item.path.endswith(".json"), item.path))


def remove(files: Collection[CollectedFile]) -> tuple[list[CollectedFile], list[str]]:
    """Remove files; return what is gone, and in words what could not be removed."""
    gone, failed = list[CollectedFile](), list[str]()
    for item in files:
        try:
            Path(item.path).unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            failed.append(f"{item.path}: {error.strerror}")
        else:
            gone.append(item)
    for folder in {Path(item.path).parent for item in gone}:
        with contextlib.suppress(OSError):
            fsync_dir(folder)
    return gone, failed


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of a folder that may be the store's, no links and nothing else."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            owned = RECORD.fullmatch(name) or WHEEL.fullmatch(name) or name.startswith(DRAFT)
            with contextlib.suppress(OSError):
                status = entry.stat(follow_symlinks=False)
                if owned and stat.S_ISREG(status.st_mode):
                    yield Path(entry.path), status
