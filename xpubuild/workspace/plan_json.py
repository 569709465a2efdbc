"""``xpubuild plan --json``."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.errors_json import Error


class PlanCommand(TypedDict):
    """One process. An argv that begins with ``xpubuild`` is run by the xpubuild that applies the plan."""

    argv: list[str]
    env: dict[str, str]
    """Added to the base environment, which is built from an allow-list."""
    cwd: str | None
    """Working folder; null is the folder xpubuild runs in."""
    path_prefix: NotRequired[list[str]]
    """Folders put in front of PATH."""
    alternatives: NotRequired[list[list[str]]]
    """Tried in order if argv fails."""
    shortcut: NotRequired[list[str]]
    """Run before argv: it makes the same with less work, and argv is run where it fails."""


class PlanEstimate(TypedDict):
    """What a step will take; null is what nothing tells."""

    seconds: float | None
    """With the number of jobs of this plan."""
    download_bytes: int | None
    disk_bytes: int | None
    """By how much the workspace grows."""
    source: str
    """What the guess rests on: an earlier build of this user, or the recipe and its source."""


class PlanTotal(TypedDict):
    """What all steps that would run now take together."""

    seconds: float
    """Steps that do not wait for each other run at the same time. Steps that nothing tells of count as 0."""
    download_bytes: int
    disk_bytes: int
    unknown: list[str]
    """Steps of which no time is known."""


class PlanStore(TypedDict):
    """What the stores of built wheels know of a step that builds one."""

    answer: Literal["kept", "absent", "unknown", "none"]
    """kept: it is taken from there; unknown: a store did not answer or is not used; none: never kept."""
    identity: NotRequired[str | None]
    """Build identity: sha256 of everything that decides the wheel, paths left out."""
    store: NotRequired[str | None]
    wheel: NotRequired[str | None]
    unknown: NotRequired[dict[str, str]]
    """Stores that gave no answer, with the reason."""
    nearest: NotRequired[str | None]
    """Identity of the kept wheel of the same distribution that differs in the fewest fields."""
    differs: NotRequired[list[str]]
    """These fields: there and here."""
    why: NotRequired[str | None]
    """Why the wheel of this step is never kept."""


class PlanStep(TypedDict):
    """One step of the plan."""

    id: str
    title: str
    needs: list[str]
    """Ids of the steps that must be done before this one."""
    after: NotRequired[list[str]]
    """Ids of steps that come first where they run, and whose results are not used."""
    commands: list[PlanCommand]
    proves: list[str]
    """Post-conditions that are checked after the commands, in words."""
    inputs: list[str]
    outputs: list[str]
    fingerprint: str
    """sha256 that changes with whatever changes the result."""
    memory_bytes: int
    """What the step may need at once; 0 where it is little."""
    state: Literal["done", "to-do"]
    """Whether the step would run now."""
    reason: str
    """Why it would run; empty where it would not."""
    estimate: NotRequired[PlanEstimate | None]
    """Of a step that would run now."""
    store: NotRequired[PlanStore | None]
    """Null for a step that builds no wheel, and for one that is done."""


class PlanDocument(TypedDict):
    """What install would do, step by step."""

    schema: Literal["xpubuild.plan/1"]
    """Name and version."""
    recipe: str
    workspace: str
    lock_digest: str
    """sha256 of everything that decides what is built, paths left out."""
    summary: dict[str, Any]
    """What was chosen, for people; keys may change."""
    steps: list[PlanStep]
    """In an order in which every step follows what it needs."""
    estimate: NotRequired[PlanTotal | None]
    """Absent where nothing would run."""
    obstacles: NotRequired[list[Error]]
    """What would stop an install before its first step: too little space, a file that nobody has."""
