"""The work of ``xpubuild store``: wheels from one store to another."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError, UsageError, XpuBuildError
from xpubuild.install.kept import own_store, with_stores
from xpubuild.install.target import Prepared
from xpubuild.supply.depot.keeping import Store, WheelKeeper, why_not
from xpubuild.supply.depot.kept_wheels import NOT_A_FOLDER, NOT_THERE, FolderStore
from xpubuild.supply.depot.location import Location, trust_from
from xpubuild.supply.depot.record import Record


@dataclass
class Copies:
    """How copying went: the rows of ``xpubuild.store-copy/1``, and why some wheels were not copied."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    failed: list[XpuBuildError] = field(default_factory=list)

    def add(self, name: str, file: str, store: Store, why: str | XpuBuildError = "") -> None:
        """Add a row; a text says that the store keeps what it has, an error that it has nothing."""
        if isinstance(why, XpuBuildError):
            self.failed.append(why)
            why = f"{why.what} ({why.why})" if why.why else why.what
        self.rows.append({"name": name, "file": file, "store": store.name, "kept": not why, "why": why})

    def copy(self, source: Store, record: Record, target: FolderStore) -> None:
        """Copy one kept wheel, every byte of it hashed."""
        why: str | XpuBuildError
        try:
            with scratch_folder("store") as folder:
                why = target.keep(record, source.bring(record, folder))
        except XpuBuildError as error:
            why = error
        except OSError as error:
            why = ToolchainError(f"{record.file} cannot be copied", why=str(error.strerror or error))
        self.add(record.dist, record.file, target, why)

    def failure(self) -> XpuBuildError | None:
        """Return the error of the whole: that of the first wheel which was not copied."""
        for first in self.failed:
            first.why = f"{first.what} ({first.why})" if first.why else first.what
            first.what = f"{len(self.failed)} of {len(self.rows)} wheels were not copied"
            return first
        return None


def folder_stores(places: Sequence[Path | Location]) -> list[FolderStore]:
    """Return the user's own store and the folders that were named.

    Raises:
        UsageError: a server was named: it is only asked for what it has by name, and only read.
    """
    return [own_store(trust_from(os.environ)), *map(_folder, places)]


def _folder(place: Path | Location) -> FolderStore:
    if isinstance(place, Location):
        raise UsageError(
            f"the store {place} is on a server",
            why="servers are only read",
            fix="run the command there with the folder of the store, or copy a folder with rsync",
        )
    return FolderStore(place, trust_from(os.environ))


def require_there(stores: Iterable[FolderStore]) -> None:
    """Refuse stores that are not there: a name with a typing error must not look like an empty store.

    Raises:
        UsageError: naming the first of them.
    """
    for store in stores:
        if (why := why_not(store)) in (NOT_THERE, NOT_A_FOLDER):
            fix = "a store is a folder; name another with --store"
            raise UsageError(f"there is no store at {store.name}", why=why, fix=fix)


def push(places: Sequence[Path | Location]) -> Copies:
    """Copy the wheels of the user's own store to others. Folders are made.

    Raises:
        UsageError: a store is on a server or no folder, or none was named.
        ToolchainError, NoSpaceError: a store is not believed, or cannot be made.
    """
    own, *others = folder_stores(places)
    if not others:
        raise UsageError("no store to push to was named", fix="name the folder of a store with --store")
    for store in others:
        store.make()
        require_there([store])
        if why := why_not(store):
            raise ToolchainError(
                f"the store {store.name} is not used",
                why=why,
                fix="if you trust all who can write to it, add it to trust.stores of a configuration file",
                commands=("xpubuild config",),
            )
    copies = Copies()
    for (path, found), store in itertools.product(list(own.records()), others):
        if isinstance(found, Record):
            copies.copy(own, found, store)
        else:
            fix = "remove it from the store; what it was for is built again"
            damaged = SourceIntegrityError(f"{path} is damaged", why=found, fix=fix)
            copies.add(path.parent.name, "", store, damaged)
    return copies


def pull(prepared: Prepared) -> Copies:
    """Copy the wheels of a plan from the stores that have them to the user's own."""
    own, copies = own_store(trust_from(os.environ)), Copies()
    for step in with_stores(prepared, ()).plan.steps:
        keeper = step.keeper
        if isinstance(keeper, WheelKeeper):
            record, store = keeper.found.record, keeper.found.store
            if record is None or store is None:
                why = "; ".join(keeper.unanswered())
                copies.add(step.id, "", own, FetchError("no store has it", why=why, fix="install builds it"))
            elif isinstance(store, FolderStore) and store.own:
                copies.add(step.id, record.file, own)
            else:
                copies.copy(store, record, own)
    return copies
