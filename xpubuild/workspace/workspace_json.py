"""``xpubuild status|env|check|clean --json``."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.supply.caching import StepCounts
from xpubuild.workspace.check import Damage


class Run(TypedDict):
    """One install in the workspace."""

    id: int
    started: float
    """Seconds since the epoch."""
    ended: float | None
    """Null if it still runs or was killed."""
    status: Literal["ok", "failed", "cancelled"] | None
    recipe: str
    argv: list[str]
    version: str
    """Version of xpubuild."""


class StatusStep(TypedDict):
    """What the journal knows of a step."""

    id: str
    status: Literal["running", "done", "failed"]
    fingerprint: str
    started: float
    duration_s: float | None
    """Null if the step runs or was killed."""
    detail: str
    store: NotRequired[str | None]
    """The store that its wheel was taken from; null where it was built here."""
    evidence: list[dict[str, Any]]
    published: list[str]
    """Files that the step put in place."""


class StatusDocument(TypedDict):
    """The journal of a workspace."""

    schema: Literal["xpubuild.status/1"]
    """Name and version."""
    workspace: str
    locked_by: dict[str, Any] | None
    """pid, host, command, since of the process that uses it now."""
    runs: list[Run]
    """Oldest first."""
    steps: list[StatusStep]
    """In the order they were last started."""
    compile_cache: NotRequired[list[StepCounts]]
    """What compile caches hit in the last attempt of each step, also of one that failed or runs."""


class SearchPath(TypedDict):
    """What happens to a variable that lists folders."""

    prepend: list[str]
    append: list[str]
    remove: list[str]


class Changes(TypedDict):
    """What activating a workspace changes, whatever was set before."""

    set: dict[str, str]
    unset: list[str]
    paths: dict[str, SearchPath]


class EnvDocument(TypedDict):
    """What activates a workspace."""

    schema: Literal["xpubuild.env/1"]
    """Name and version."""
    workspace: str
    env: dict[str, str | None]
    """Variables to set; null means: remove."""
    changes: Changes
    """The same without the caller's values, for module systems."""


class Checked(TypedDict):
    """How much was hashed."""

    packages: int
    """Installed distributions."""
    files: int
    """Files that their RECORDs list."""
    bytes: int
    """Size of these files and of the wheels."""
    wheels: int
    """Wheels that were built here."""
    sources: int
    """Checkouts; their repositories were checked too."""


class CheckDocument(TypedDict):
    """What is damaged in a workspace, and what was repaired."""

    schema: Literal["xpubuild.check/1"]
    """Name and version."""
    status: Literal["ok", "damaged"]
    """After the repair, with --repair."""
    workspace: str
    checked: Checked
    damaged: list[Damage]
    """Installed, built or kept files that are not what they were."""
    repaired: list[Damage]
    """What was removed and made anew."""
    unowned: list[str]
    """Files that no installed package has, and wheels that were not built here."""
    edited: list[str]
    """Files in checkouts that were changed after the checkout; they are not damage."""


class KeptPath(TypedDict):
    """A path that clean leaves alone."""

    path: str
    why: str


class CleanDocument(TypedDict):
    """What clean removed, or would remove."""

    schema: Literal["xpubuild.clean/1"]
    """Name and version."""
    workspace: str
    dry_run: bool
    removed: list[str]
    steps: list[str]
    kept: list[KeptPath]
    freed_bytes: int
    """0 with --dry-run."""
