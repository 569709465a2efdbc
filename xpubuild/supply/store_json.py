"""``xpubuild store list|size|check|push|pull|gc --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.supply.depot.bytes import Damage
from xpubuild.supply.depot.keeping import CollectedFile


class KeptWheel(TypedDict):
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


class StoreContents(TypedDict):
    """A folder with kept wheels."""

    store: str
    believed: bool
    """Whether an install takes wheels from it."""
    why: str
    """Why not; empty where it does."""
    writable: bool
    size_bytes: int
    wheels: list[KeptWheel]


class StoreDocument(TypedDict):
    """The wheels of your own store and of those that were named."""

    schema: Literal["xpubuild.store/1"]
    """Name and version."""
    stores: list[StoreContents]


class StoreSize(TypedDict):
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
    why: NotRequired[str]
    """Why an install takes nothing from it, such as that it is not there; empty where it does."""


class StoreSizeDocument(TypedDict):
    """How much is in your own store and in those that were named."""

    schema: Literal["xpubuild.store-size/1"]
    """Name and version."""
    stores: list[StoreSize]


class StoreDamage(TypedDict):
    """A store, and what is damaged in it."""

    store: str
    damaged: list[Damage]


class StoreCheckDocument(TypedDict):
    """What is damaged in your own store and in those that were named."""

    schema: Literal["xpubuild.store-check/1"]
    """Name and version."""
    stores: list[StoreDamage]


class CopiedWheel(TypedDict):
    """A wheel that was to be copied."""

    name: str
    """The distribution, or the step that builds it."""
    file: str
    """The name of the wheel's file; empty where no store has one."""
    store: str
    """The store that it was to be copied to."""
    kept: bool
    """Whether it is there now."""
    why: str
    """Why not."""


class StoreCopyDocument(TypedDict):
    """What was copied from one store to another."""

    schema: Literal["xpubuild.store-copy/1"]
    """Name and version."""
    wheels: list[CopiedWheel]


class StoreGcDocument(TypedDict):
    """What was removed from stores, or would be removed."""

    schema: Literal["xpubuild.store-gc/1"]
    """Name and version."""
    dry_run: bool
    removed: list[CollectedFile]
    kept: list[str]
    """What was not removed, each with the reason."""
