"""The work of ``xpubuild store``: wheels from one store to another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError, UsageError, XpuBuildError
from xpubuild.install.kept import with_stores
from xpubuild.install.store_uses import uses_of
from xpubuild.install.stores import opened, own_store
from xpubuild.supply.depot.collect import why_not
from xpubuild.supply.depot.keeping import NotKept, Store, WheelKeeper
from xpubuild.supply.depot.kept_wheels import NOT_A_FOLDER, NOT_THERE, FolderStore
from xpubuild.supply.depot.location import Location, trust_from
from xpubuild.supply.depot.record import Record

if TYPE_CHECKING:
    from xpubuild.install.target import Prepared


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

    def failure(self) -> XpuBuildError | None:
        """Return the error of the whole: that of the first wheel which was not copied."""
        if not self.failed:
            return None
        first = self.failed[0]
        return type(first)(
            f"{len(self.failed)} of {len(self.rows)} wheels were not copied",
            why=f"{first.what} ({first.why})" if first.why else first.what,
            fix=first.fix,
            commands=first.commands,
            evidence=first.evidence,
        )


def folder_stores(places: Sequence[Path | Location]) -> list[FolderStore]:
    """Return the user's own store and the folders that were named.

    Raises:
        UsageError: a server was named, which cannot be listed.
    """
    trust = trust_from(os.environ)
    found = [own_store(trust)]
    for place in places:
        if isinstance(place, Location):
            raise UsageError(
                f"the store {place} cannot be listed",
                why="a store on a server is only asked for what it has by name",
                fix="run the command on the server, with the folder of the store",
            )
        found.append(FolderStore(place, trust))
    return found


def require_there(stores: Iterable[FolderStore]) -> None:
    """Refuse stores that are not there: a name with a typing error must not look like an empty store.

    Raises:
        UsageError: naming the first of them.
    """
    for store in stores:
        why = why_not(store)
        if why in (NOT_THERE, NOT_A_FOLDER):
            raise _no_store(store, why)


def _no_store(store: Store, why: str) -> UsageError:
    return UsageError(
        f"there is no store at {store.name}", why=why, fix="a store is a folder; name another with --store"
    )


def push(places: Sequence[Path | Location], workspace: Path | None) -> Copies:
    """Copy wheels from the user's own store to others: all, or those of a workspace. Folders are made.

    Raises:
        UsageError: a store is on a server or no folder, or none was named.
        ToolchainError, NoSpaceError: a store is not believed, or cannot be made.
    """
    own, others = own_store(trust_from(os.environ)), [_to_write(place) for place in places]
    if not others:
        raise UsageError("no store to push to was named", fix="name the folder of a store with --store")
    for store in others:
        store.make()
        require_believed(store)
    wanted = uses_of(workspace).identities if workspace is not None else {}
    there = {path.stem: (path, found) for path, found in own.records()}
    copies = Copies()
    for store in others:
        for key, (path, found) in there.items():
            if workspace is not None and key not in wanted:
                continue
            if isinstance(found, Record):
                _copy(copies, own, found, store)
            else:
                copies.add(path.parent.name, "", store, _damaged(path, found))
        for key in sorted(set(wanted).difference(there)):
            _look(copies, wanted[key], key, store)
    return copies


def _to_write(place: Path | Location) -> FolderStore:
    """Return the store at a place that wheels are to be put into.

    Raises:
        UsageError: it is on a server.
    """
    store = opened(place, trust_from(os.environ))
    if isinstance(store, FolderStore):
        return store
    raise UsageError(
        f"the store {place} cannot be written",
        why="servers are only read",
        fix="run the command there with the folder of the store, or push to a folder and copy it with rsync",
    )


def _look(copies: Copies, step: str, key: str, store: FolderStore) -> None:
    """Add a wheel of a workspace that the user's own store lacks; a folder may have it all the same."""
    found = next((item for path, item in store.records() if path.stem == key), None)
    if isinstance(found, Record):
        copies.add(step, found.file, store)
    else:
        copies.add(step, "", store, FetchError("your own store does not have it", fix="install it again"))


def _damaged(path: Path, why: str) -> SourceIntegrityError:
    return SourceIntegrityError(
        f"{path} is damaged", why=why, fix="remove it from the store; what it was for is built again"
    )


def pull(prepared: Prepared) -> Copies:
    """Copy the wheels of a plan from the stores that have them to the user's own."""
    own, *_ = folder_stores(())
    copies = Copies()
    for step in with_stores(prepared, ()).plan.steps:
        keeper = step.keeper
        if isinstance(keeper, NotKept):
            copies.add(step.id, "", own, FetchError("no store can have it", why=keeper.why))
        elif isinstance(keeper, WheelKeeper):
            found = keeper.found
            if found.record is None or found.store is None:
                why = "; ".join(keeper.unanswered())
                copies.add(step.id, "", own, FetchError("no store has it", why=why, fix="install builds it"))
            elif isinstance(found.store, FolderStore) and found.store.own:
                copies.add(step.id, found.record.file, own)
            else:
                _copy(copies, found.store, found.record, own)
    return copies


def _copy(copies: Copies, source: Store, record: Record, target: FolderStore) -> None:
    """Copy one kept wheel, every byte of it hashed."""
    why: str | XpuBuildError
    try:
        with scratch_folder("store") as folder:
            why = target.keep(record, source.bring(record, folder))
    except XpuBuildError as error:
        why = error
    except OSError as error:
        why = ToolchainError(f"{record.file} cannot be copied", why=str(error.strerror or error))
    copies.add(record.dist, record.file, target, why)


def require_believed(store: Store) -> None:
    """Refuse a store that the configuration does not believe.

    Raises:
        ToolchainError: naming the reason.
        FetchError: it cannot be looked at.
    """
    try:
        why = store.why_not()
    except OSError as error:
        raise FetchError(f"the store {store.name} cannot be read", why=str(error.strerror)) from error
    if why in (NOT_THERE, NOT_A_FOLDER):
        raise _no_store(store, why)
    if why:
        raise ToolchainError(
            f"the store {store.name} is not used",
            why=why,
            fix="if you trust all who can write to it, add it to trust.stores of a configuration file",
            commands=("xpubuild config",),
        )
