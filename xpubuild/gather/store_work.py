"""The work of ``xpubuild store``: what refers to kept wheels, wheels from one store to another."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, ToolchainError, UsageError, XpuBuildError
from xpubuild.gather.kept import with_stores
from xpubuild.gather.options import default_workspace
from xpubuild.gather.stores import own_store
from xpubuild.mirror.remote.location import Location
from xpubuild.store.collect import Used
from xpubuild.store.folder import FolderStore
from xpubuild.store.keeping import Store, WheelKeeper
from xpubuild.store.record import Record
from xpubuild.store.trust import trust_from
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.overview import workspaces_in

if TYPE_CHECKING:
    from xpubuild.gather.prepare import Prepared


def folder_stores(places: Sequence[Path | Location]) -> list[FolderStore]:
    """Return the user's own store and the folders that were named.

    Raises:
        UsageError: a server was named: it cannot be listed.
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


def used_by(workspaces: Iterable[Path], digests: Iterable[str]) -> Used:
    """Return what the receipts of the default folder and of other workspaces refer to, and lock digests."""
    folder = default_workspace("any").parent
    roots = dict.fromkeys((*workspaces_in(folder), *workspaces))
    receipts = [receipt for root in roots for receipt in _receipt(root)]
    return Used(
        frozenset(key for receipt in receipts for key in identities_of(receipt)),
        frozenset((*digests, *(str(receipt.get("lock_digest")) for receipt in receipts))),
    )


def _receipt(root: Path) -> Iterator[dict[str, Any]]:
    with contextlib.suppress(XpuBuildError):
        yield dict(read_receipt(root))


def identities_of(receipt: dict[str, Any]) -> set[str]:
    """Return the build identities that the evidence of a receipt names."""
    every = (item for step in receipt.get("steps", ()) for item in step.get("evidence", ()))
    return {item["identity"] for item in every if isinstance(item.get("identity"), str)}


def push(places: Sequence[Path | Location], workspace: Path | None) -> list[dict[str, Any]]:
    """Copy wheels from the user's own store to others: all, or those of a workspace.

    Raises:
        UsageError: a store is on a server, or none was named.
        ToolchainError: a store is not believed.
    """
    own, *others = folder_stores(places)
    if not others:
        raise UsageError("no store to push to was named", fix="name the folder of a store with --store")
    for store in others:
        require_believed(store)
    wanted = None if workspace is None else identities_of(dict(read_receipt(workspace)))
    records = [found for _, found in own.records() if isinstance(found, Record)]
    return [
        copied(own, record, store)
        for store in others
        for record in records
        if wanted is None or record.identity in wanted
    ]


def pull(prepared: Prepared) -> list[dict[str, Any]]:
    """Copy the wheels of a plan from the stores that have them to the user's own."""
    own, *_ = folder_stores(())
    rows = []
    for step in with_stores(prepared, ()).plan.steps:
        keeper = step.keeper
        if not isinstance(keeper, WheelKeeper):
            continue
        found = keeper.found
        if found.record is None or found.store is None:
            why = "; ".join(f"{name}: {said}" for name, said in found.unknown.items())
            rows.append(_row(step.id, "", own, why or "no store has it"))
        elif isinstance(found.store, FolderStore) and found.store.own:
            rows.append(_row(step.id, found.record.file, own, ""))
        else:
            rows.append(copied(found.store, found.record, own))
    return rows


def copied(source: Store, record: Record, target: FolderStore) -> dict[str, Any]:
    """Copy one kept wheel, every byte of it hashed, and say how that went."""
    try:
        with scratch_folder("store") as folder:
            why = target.keep(record, source.bring(record, folder))
    except XpuBuildError as error:
        why = f"{error.what} ({error.why})"
    except OSError as error:
        why = str(error.strerror or error)
    return _row(record.dist, record.file, target, why)


def _row(name: str, file: str, store: FolderStore, why: str) -> dict[str, Any]:
    return {"name": name, "file": file, "store": store.name, "kept": not why, "why": why}


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
    if why:
        raise ToolchainError(
            f"the store {store.name} is not used",
            why=f"{why}, and the configuration does not name it",
            fix="if you trust all who can write to it, add it to trust.stores of a configuration file",
            commands=("xpubuild config",),
        )
