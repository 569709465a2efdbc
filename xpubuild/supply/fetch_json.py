"""``xpubuild fetch --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.errors_json import Error
from xpubuild.supply.depot.folder import Damage


class FetchRepository(TypedDict):
    """A commit that the build needs."""

    component: str
    url: str
    commit: str
    path: str
    """Place below the component's tree; empty for the top."""
    ref: str | None
    """Tag or branch by which the build requests it."""
    configure_time: bool
    """Whether the build itself clones it while it configures."""
    new: bool
    """Whether it was downloaded."""


class FetchFile(TypedDict):
    """A package's file that the build needs."""

    kind: Literal["wheel", "sdist", "conda", "archive"]
    name: str
    dist: str
    version: str
    sha256: str
    size: int
    url: str
    """Where it came from, without credentials; empty where that is not known."""
    new: bool


class FetchSummary(TypedDict):
    """How much there is; sizes are bytes."""

    repositories: int
    files: int
    bytes: int
    new_repositories: int
    new_files: int
    new_bytes: int


class FetchDocument(TypedDict):
    """What a fetch downloaded or found."""

    schema: Literal["xpubuild.fetch/1"]
    """Name and version."""
    status: Literal["ok", "error"]
    mirror: str
    recipe: str | None
    """Null for the whole mirror."""
    pythons: list[str]
    set: str | None
    """Name of the file below sets/ that says what was needed."""
    repositories: list[FetchRepository]
    files: list[FetchFile]
    unknown: list[str]
    """Repositories that the build clones at a commit that the tree does not state, and archives that it
    downloads from a URL that is not known."""
    damaged: list[Damage]
    """Found, and repaired."""
    summary: FetchSummary
    error: NotRequired[Error | None]
