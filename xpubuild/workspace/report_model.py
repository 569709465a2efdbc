"""The parts of a report that no other document has; ``schema.report`` names the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from xpubuild.frozen import frozen
from xpubuild.workspace.ninja_log import Edge

StepStatus = Literal["done", "failed", "running", "interrupted", "to do"]
WorkspaceStatus = Literal["complete", "failed", "running", "interrupted", "partial"]


@frozen
class ReportStep:
    """A step as it was last tried."""

    id: str
    title: str
    status: StepStatus
    started: float | None
    """Seconds since the epoch; null if it never began."""
    duration_s: float | None
    """Null if it never ended."""
    detail: str
    """Why it failed, and what else there is to say."""
    peak_bytes: int
    """Most memory that one of its commands had; 0 if none was measured."""
    proved: tuple[Mapping[str, Any], ...]
    """Evidence: one object per proof, which `proof` names."""


@frozen
class ReportCommand:
    """One process that was run, in any attempt."""

    step: str
    argv: tuple[str, ...]
    started: float
    """Seconds since the epoch."""
    duration_s: float
    user_s: float
    system_s: float
    max_rss_bytes: int
    """Of its largest process."""
    peak_bytes: int
    """Of the whole process tree at one moment."""
    returncode: int
    log: str
    memory: tuple[tuple[float, int], ...]
    """(seconds after the start, bytes of the process tree); empty where it was not recorded."""


@frozen
class NinjaBuild:
    """A run of ninja in a build folder, without edges that a later run there ran again."""

    folder: str
    """Relative to the workspace."""
    step: str
    """The step that ran it; empty where the times do not tell."""
    started: float | None
    """Seconds since the epoch; null where no step ran then, or the log does not tell."""
    span_s: float
    """Seconds to the end of its last edge."""
    edges: tuple[Edge, ...]


@frozen
class StepExplanation:
    """What ``explain`` finds in the log of a step that failed."""

    step: str
    log: str
    explanation: Mapping[str, Any]
    """An xpubuild.explain/1 document."""
