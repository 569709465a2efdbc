"""What a check is, and what it returns. A new check is one small class in ``doctor.checks``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from xpubuild.frozen import frozen

if TYPE_CHECKING:
    from xpubuild.doctor.context import CheckContext, Profile

Status = Literal["ok", "warn", "fail", "skip", "error"]


@frozen
class Fix:
    """What to do about a finding."""

    summary: str
    commands: tuple[str, ...] = ()
    """What to type, on the distribution of the host."""


@frozen
class Outcome:
    """The outcome of one check; ``detail`` is one or two sentences, ``evidence`` plain JSON values."""

    status: Status
    detail: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    fix: Fix | None = None


class Check(ABC):
    """One property of the host that is tested.

    ``severity`` is the status if the check does not pass (``self.found``). ``needs`` are ids of checks that
    must have status ok or warn; otherwise this check is skipped with that reason, so that one cause is one
    failure. ``live`` marks checks that need the running machine: with ``--root`` they are skipped.
    ``families`` are the failure families (docs/reference/explain.md) that the check detects. ``recipe``
    marks a check that needs a recipe: without one it is skipped.
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
    #: The body of docs/checks/<id>.md: what is tested, why it matters, how to fix it (Markdown).
    explanation: ClassVar[str] = ""
    #: Where the page of a plug-in's check is; those of xpubuild have docs/checks/<id>.md.
    docs: ClassVar[str] = ""

    @abstractmethod
    def run(self, context: CheckContext) -> Outcome:
        """Run the check; an exception becomes status ``error`` and does not stop the run."""

    def ok(self, detail: str, **evidence: Any) -> Outcome:
        """Return that the check passed."""
        return Outcome("ok", detail, evidence)

    def found(self, detail: str, fix: Fix, **evidence: Any) -> Outcome:
        """Return a failure or warning, according to the check's severity."""
        return Outcome(self.severity, detail, evidence, fix)

    def warn(self, detail: str, fix: Fix, **evidence: Any) -> Outcome:
        """Return a warning."""
        return Outcome("warn", detail, evidence, fix)

    def skip(self, why: str, **evidence: Any) -> Outcome:
        """Return that the check does not apply or cannot run here, and why."""
        return Outcome("skip", why, evidence)
