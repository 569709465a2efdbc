"""``xpubuild status --all --json``, ``clean --older`` and ``clean --caches``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict


class WorkspaceRow(TypedDict):
    """One workspace; null is what nothing tells."""

    name: str
    path: str
    recipe: str | None
    torch: str | None
    """The version that is installed."""
    state: str
    """complete, partial, failed, interrupted, in use, or unknown."""
    size_bytes: int
    """On the disk; a file with several names counts once."""
    wheels_bytes: int
    """The part of it that is wheels."""
    last_used: float | None
    """When the last install ended, in seconds since the epoch."""
    verify: str | None
    """Result of the last verify."""
    verified: float | None
    """When that was, in seconds since the epoch."""


class CacheRow(TypedDict):
    """A folder of the user's cache."""

    name: str
    path: str
    size_bytes: int


class OverviewDocument(TypedDict):
    """Every workspace below the default folder, the active one, and the caches."""

    schema: Literal["xpubuild.overview/1"]
    """Name and version."""
    folder: str
    workspaces: list[WorkspaceRow]
    caches: list[CacheRow]


class RemovedFolder(TypedDict):
    """A workspace or a cache as a whole."""

    path: str
    size_bytes: int


class CleanManyDocument(TypedDict):
    """What clean removed, or would remove, of several workspaces or the caches."""

    schema: Literal["xpubuild.clean-many/1"]
    """Name and version."""
    dry_run: bool
    removed: list[RemovedFolder]
    kept: list[str]
    """What was not removed, each with the reason: edits, another process, a no at the question."""
