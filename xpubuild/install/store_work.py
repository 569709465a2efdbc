"""The work of ``xpubuild store``: wheels from one store to another, and who refers to them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.journal import Journal
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import FetchError, SourceIntegrityError, ToolchainError, UsageError, XpuBuildError
from xpubuild.install.kept import own_store, with_stores
from xpubuild.install.options import default_workspace
from xpubuild.install.target import Prepared
from xpubuild.supply.depot.keeping import NotKept, Store, Used, WheelKeeper, why_not
from xpubuild.supply.depot.kept_wheels import NOT_A_FOLDER, NOT_THERE, FolderStore
from xpubuild.supply.depot.location import Location, trust_from
from xpubuild.supply.depot.record import Record, identity_of
from xpubuild.workspace.activation import read_receipt
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.overview import workspaces_in


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


def push(places: Sequence[Path | Location], workspace: Path | None) -> Copies:
    """Copy wheels from the user's own store to others: all, or those of a workspace. Folders are made.

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
    wanted = identities_in(workspace) if workspace is not None else {}
    there, copies = {path.stem: (path, found) for path, found in own.records()}, Copies()
    for store in others:
        for key, (path, found) in there.items():
            if workspace is not None and key not in wanted:
                continue
            if isinstance(found, Record):
                copies.copy(own, found, store)
            else:
                fix = "remove it from the store; what it was for is built again"
                copies.add(
                    path.parent.name,
                    "",
                    store,
                    SourceIntegrityError(f"{path} is damaged", why=found, fix=fix),
                )
        for key in sorted(set(wanted).difference(there)):
            # A wheel of a workspace that the user's own store lacks; a folder may have it all the same.
            here = next((item for path, item in store.records() if path.stem == key), None)
            lost = FetchError("your own store does not have it", fix="install it again")
            is_here = isinstance(here, Record)
            copies.add(
                wanted[key], here.file if isinstance(here, Record) else "", store, "" if is_here else lost
            )
    return copies


def pull(prepared: Prepared) -> Copies:
    """Copy the wheels of a plan from the stores that have them to the user's own."""
    own, copies = own_store(trust_from(os.environ)), Copies()
    for step in with_stores(prepared, ()).plan.steps:
        keeper = step.keeper
        if isinstance(keeper, NotKept):
            copies.add(step.id, "", own, FetchError("no store can have it", why=keeper.why))
        elif isinstance(keeper, WheelKeeper):
            record, store = keeper.found.record, keeper.found.store
            if record is None or store is None:
                why = "; ".join(keeper.unanswered())
                copies.add(step.id, "", own, FetchError("no store has it", why=why, fix="install builds it"))
            elif isinstance(store, FolderStore) and store.own:
                copies.add(step.id, record.file, own)
            else:
                copies.copy(store, record, own)
    return copies


def used_by(
    workspaces: Iterable[Path],
    digests: Iterable[str] = (),
    unread: Callable[[XpuBuildError], None] | None = None,
) -> Used:
    """Return what the workspaces of the default folder and others refer to, and lock digests.

    ``unread`` is told of each workspace that cannot be read; without it that is an error.

    Raises:
        UsageError, ToolchainError, FetchError: what a workspace refers to cannot be read.
    """
    identities, wheels, locks = set[str](), set[str](), set(digests)
    for root in dict.fromkeys((*workspaces_in(default_workspace("any").parent), *workspaces)):
        try:
            identities |= identities_in(root).keys()
            if Layout(root).receipt.is_file():
                locks.add(str(_receipt(root).get("lock_digest")))
            else:
                # Of an install that was killed; its wheels count by their content.
                wheels |= {file_sha256(wheel) for wheel in Layout(root).wheels.glob("*.whl")}
        except (XpuBuildError, OSError) as error:
            found = (
                error
                if isinstance(error, XpuBuildError)
                else FetchError(f"{root} cannot be read", why=str(error))
            )
            if unread is None:
                raise found from error
            unread(found)
    return Used(frozenset(identities), frozenset(locks), frozenset(wheels))


def identities_in(root: Path) -> dict[str, str]:
    """Return the steps of a workspace by the identities of their wheels: by its journal and its receipt.

    Raises:
        UsageError, ToolchainError: receipt or journal cannot be read.
    """
    found: list[tuple[str, list[dict[str, Any]]]] = []
    if Layout(root).journal.is_file():
        with Journal(Layout(root).journal, read_only=True) as journal:
            found = [(record.step, record.evidence) for record in journal.records()]
    if Layout(root).receipt.is_file():
        found += [(step["id"], step["evidence"]) for step in _receipt(root)["steps"]]
    keys = ((identity_of(evidence), step) for step, evidence in found)
    return {key: step for key, step in keys if key is not None}


def _receipt(root: Path) -> dict[str, Any]:
    """Return a receipt with the evidence of its steps; a damaged one must not look like one of no wheels."""
    try:
        receipt = read_receipt(root)
        for step in receipt["steps"]:
            identity_of(dict(item) for item in step["evidence"])
    except (UsageError, KeyError, TypeError, ValueError) as error:
        raise UsageError(
            f"the receipt {Layout(root).receipt} is damaged",
            why="so the kept wheels that its workspace uses are not known",
            fix="run the same install again, which writes the receipt again, or remove the workspace",
        ) from error
    return receipt
