"""What a check is, and what it answers. A new check is one small class below ``doctor.checks``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

if TYPE_CHECKING:
    from xpubuild.doctor.context import Context

Status = Literal["ok", "warn", "fail", "skip", "error"]
Profile = Literal["build", "run"]


@dataclass(frozen=True)
class Fix:
    """What to do about a finding: a sentence, and commands to type on the distribution at hand."""

    summary: str
    commands: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the fix as documents show it."""
        return {"summary": self.summary, "commands": list(self.commands)}


@dataclass(frozen=True)
class Outcome:
    """What one check found; ``detail`` is a sentence or two for a person, ``evidence`` plain JSON values."""

    status: Status
    detail: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: Fix | None = None


class Check(ABC):
    """One question about the host.

    ``severity`` is the status a finding has by default (``self.found``). ``needs`` are ids of checks that
    must have ended ok or warn: where one did not, this one is skipped and says so, so one cause is one
    failure. ``live`` marks what only the running machine can tell: with ``--root`` it is skipped.
    ``families`` are the failure families (docs/reference/explain.md) that the check foresees. ``recipe``
    marks a check that asks about a recipe: without one it is skipped.
    """

    id: ClassVar[str]
    title: ClassVar[str]
    severity: ClassVar[Literal["warn", "fail"]] = "fail"
    needs: ClassVar[tuple[str, ...]] = ()
    profiles: ClassVar[frozenset[Profile]] = frozenset({"build", "run"})
    families: ClassVar[tuple[str, ...]] = ()
    live: ClassVar[bool] = False
    recipe: ClassVar[bool] = False
    deadline_s: ClassVar[float] = 10.0
    #: The body of docs/checks/<id>.md: what is looked at, why it matters, how to mend it (Markdown).
    explanation: ClassVar[str] = ""
    #: Where the page of a plug-in's check is; those of xpubuild have docs/checks/<id>.md.
    docs: ClassVar[str] = ""

    @abstractmethod
    def run(self, context: Context) -> Outcome:
        """Look, and answer; what it raises becomes status ``error`` and never ends the run."""

    def ok(self, detail: str, **evidence: Any) -> Outcome:
        """Return that all is well."""
        return Outcome("ok", detail, evidence)

    def found(self, detail: str, fix: Fix, **evidence: Any) -> Outcome:
        """Return a finding with the check's own severity."""
        return Outcome(self.severity, detail, evidence, fix)

    def warn(self, detail: str, fix: Fix, **evidence: Any) -> Outcome:
        """Return a finding that hinders nothing yet."""
        return Outcome("warn", detail, evidence, fix)

    def skip(self, why: str, **evidence: Any) -> Outcome:
        """Return that the question does not arise or cannot be answered here, and why."""
        return Outcome("skip", why, evidence)
