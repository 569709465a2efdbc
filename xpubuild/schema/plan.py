"""``xpubuild plan --json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from xpubuild.schema.common import Document, Error, Part


class PlanCommand(Part):
    """One process. An argv that begins with ``xpubuild`` is run by the xpubuild that applies the plan."""

    argv: list[str]
    env: dict[str, str]
    """Added to the base environment, which is built from an allow-list."""
    cwd: str | None
    """Working folder; null is the folder xpubuild runs in."""
    path_prefix: list[str] = Field(default=[])
    """Folders put in front of PATH."""
    alternatives: list[list[str]] = Field(default=[])
    """Tried in order if argv fails."""
    shortcut: list[str] = Field(default=[])
    """Run before argv: it makes the same with less work, and argv is run where it fails."""


class PlanEstimate(Part):
    """What a step will take; null is what nothing tells."""

    seconds: float | None
    """With the number of jobs of this plan."""
    download_bytes: int | None
    disk_bytes: int | None
    """By how much the workspace grows."""
    source: str
    """What the guess rests on: an earlier build of this user, or the recipe and its source."""


class PlanTotal(Part):
    """What all steps that would run now take together."""

    seconds: float
    """Steps that do not wait for each other run at the same time. Steps that nothing tells of count as 0."""
    download_bytes: int
    disk_bytes: int
    unknown: list[str]
    """Steps of which no time is known."""


class PlanStore(Part):
    """What the stores of built wheels know of a step that builds one."""

    answer: Literal["kept", "absent", "unknown", "none"]
    """kept: it is taken from there; unknown: a store did not answer or is not used; none: never kept."""
    identity: str | None = None
    """Build identity: sha256 of everything that decides the wheel, paths left out."""
    store: str | None = None
    wheel: str | None = None
    unknown: dict[str, str] = Field(default={})
    """Stores that gave no answer, with the reason."""
    nearest: str | None = None
    """Identity of the kept wheel of the same distribution that differs in the fewest fields."""
    differs: list[str] = Field(default=[])
    """These fields: there and here."""
    why: str | None = None
    """Why the wheel of this step is never kept."""


class PlanStep(Part):
    """One step of the plan."""

    id: str
    title: str
    needs: list[str]
    """Ids of the steps that must be done before this one."""
    after: list[str] = Field(default=[])
    """Ids of steps that come first where they run, and whose results are not used."""
    commands: list[PlanCommand]
    proves: list[str]
    """Post-conditions that are checked after the commands, in words."""
    inputs: list[str]
    outputs: list[str]
    fingerprint: str = Field(
        pattern="^[0-9a-f]{64}$", description="Changes with whatever changes the result."
    )
    memory_bytes: int
    """What the step may need at once; 0 where it is little."""
    state: Literal["done", "to-do"]
    """Whether the step would run now."""
    reason: str
    """Why it would run; empty where it would not."""
    estimate: PlanEstimate | None = None
    """Of a step that would run now."""
    store: PlanStore | None = None
    """Null for a step that builds no wheel, and for one that is done."""


class PlanDocument(Document):
    """What install would do, step by step."""

    schema_: Literal["xpubuild.plan/1"] = Field(alias="schema", description="Name and version.")
    recipe: str
    workspace: str
    lock_digest: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="sha256 of everything that decides what is built, paths left out.",
    )
    summary: dict[str, Any]
    """What was chosen, for people; keys may change."""
    steps: list[PlanStep]
    """In an order in which every step follows what it needs."""
    estimate: PlanTotal | None = None
    """Absent where nothing would run."""
    obstacles: list[Error] = Field(default=[])
    """What would stop an install before its first step: too little space, a file that nobody has."""
