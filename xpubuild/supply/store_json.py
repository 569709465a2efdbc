"""``xpubuild store list|size|check|push|pull|gc --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.supply.depot.folder import Damage
from xpubuild.supply.depot.keeping import CollectedFile, StoreContents, StoreSize


class StoreDocument(TypedDict):
    """The wheels of your own store and of those that were named."""

    schema: Literal["xpubuild.store/1"]
    """Name and version."""
    stores: list[StoreContents]


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
