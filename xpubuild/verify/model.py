"""What verify finds, as data: the document of ``xpubuild verify --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = "xpubuild.verify/1"
STATUSES = ("pass", "fail", "skip", "crash", "timeout")
_BAD = frozenset({"fail", "crash", "timeout"})


@dataclass(frozen=True)
class CheckInfo:
    """A check that could run. ``needs`` are ids of checks that have to pass before it says anything."""

    id: str
    title: str
    group: str
    needs: tuple[str, ...]
    suites: tuple[str, ...]
    deadline_s: float

    def to_json(self) -> dict[str, Any]:
        """Return the check for ``verify --list --json``."""
        return {
            "id": self.id,
            "title": self.title,
            "group": self.group,
            "needs": list(self.needs),
            "suites": list(self.suites),
            "deadline_s": self.deadline_s,
        }


@dataclass(frozen=True)
class CheckResult:
    """How one check ended.

    ``status`` is pass, fail (it says no, or raised), skip (it does not apply; ``detail`` is the reason),
    crash (the process died) or timeout. ``output`` are the last lines that the check's process printed
    meanwhile, warnings of torch and native stack traces among them. ``warnings`` are the suite's own, and no
    failures: a speed below what it should be, say.
    """

    id: str
    title: str
    group: str
    status: str
    duration_s: float = 0.0
    detail: str = ""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        """Whether this result makes the whole verification fail."""
        return self.status in _BAD

    def to_json(self) -> dict[str, Any]:
        """Return the check as the verify document shows it."""
        return {
            "id": self.id,
            "title": self.title,
            "group": self.group,
            "status": self.status,
            "duration_s": self.duration_s,
            "detail": self.detail,
            "metrics": dict(self.metrics),
            "output": list(self.output),
            "warnings": list(self.warnings),
        }


@dataclass(frozen=True)
class VerifyReport:
    """All results of one run; ``torch`` and ``device`` are empty where the checks that read them failed."""

    suite: str
    python: str
    checks: tuple[CheckResult, ...]
    torch: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    duration_s: float = 0.0

    @property
    def status(self) -> str:
        """Return ``pass`` when no check failed, crashed or passed its deadline, else ``fail``."""
        return "fail" if any(check.bad for check in self.checks) else "pass"

    def count(self) -> dict[str, int]:
        """Return how many checks ended in each status."""
        return {status: sum(check.status == status for check in self.checks) for status in STATUSES}

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``xpubuild verify --json``."""
        return {
            "schema": SCHEMA,
            "status": self.status,
            "suite": self.suite,
            "python": self.python,
            "torch": dict(self.torch),
            "device": dict(self.device),
            "duration_s": self.duration_s,
            "summary": self.count(),
            "checks": [check.to_json() for check in self.checks],
        }
