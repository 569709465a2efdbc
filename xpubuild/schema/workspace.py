"""``xpubuild status|env|clean --json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from xpubuild.schema.common import Document, Part


class Run(Part):
    """One install in the workspace."""

    id: int
    started: float = Field(description="Seconds since the epoch.")
    ended: float | None = Field(description="Null where it still runs or was killed.")
    status: Literal["ok", "failed", "cancelled"] | None
    recipe: str
    argv: list[str]
    version: str = Field(description="Version of xpubuild.")


class StatusStep(Part):
    """What the journal knows of a step."""

    id: str
    status: Literal["running", "done", "failed"]
    fingerprint: str
    started: float
    duration_s: float | None = Field(description="Null where the step runs or was killed.")
    detail: str
    evidence: list[dict[str, Any]]
    published: list[str] = Field(description="Files that the step put in place.")


class StatusDocument(Document):
    """The journal of a workspace."""

    schema_: Literal["xpubuild.status/1"] = Field(alias="schema", description="Name and version.")
    workspace: str
    locked_by: dict[str, Any] | None = Field(description="pid, host, command, since of who holds it now.")
    runs: list[Run] = Field(description="Oldest first.")
    steps: list[StatusStep] = Field(description="In the order they were last started.")


class EnvDocument(Document):
    """What enters a workspace."""

    schema_: Literal["xpubuild.env/1"] = Field(alias="schema", description="Name and version.")
    workspace: str
    env: dict[str, str | None] = Field(description="Variables to set; null means: remove.")


class KeptPath(Part):
    """A path that clean leaves alone."""

    path: str
    why: str


class CleanDocument(Document):
    """What clean removed, or would remove."""

    schema_: Literal["xpubuild.clean/1"] = Field(alias="schema", description="Name and version.")
    workspace: str
    dry_run: bool
    removed: list[str]
    steps: list[str]
    kept: list[KeptPath]
    freed_bytes: int = Field(description="0 with --dry-run.")
