"""What verify finds, as data: the document of ``xpubuild verify --json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal, get_args

from xpubuild.documents import plain
from xpubuild.frozen import frozen

SCHEMA = "xpubuild.verify/1"
CheckStatus = Literal["pass", "fail", "skip", "crash", "timeout"]
STATUSES: tuple[CheckStatus, ...] = get_args(CheckStatus)
_BAD = frozenset({"fail", "crash", "timeout"})


@frozen
class CheckInfo:
    """A check that verify can run."""

    id: str
    title: str
    group: str
    needs: tuple[str, ...]
    """Checks that must pass before this one says anything."""
    suites: tuple[str, ...]
    deadline_s: float


@frozen
class CheckResult:
    """One check and its result."""

    id: str
    title: str
    group: str
    status: CheckStatus
    """`fail`: wrong result or exception; `skip`: it does not apply; `crash`: the process died."""
    duration_s: float = 0.0
    detail: str = ""
    """With `skip` the reason."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    output: tuple[str, ...] = ()
    """Last lines that its process printed meanwhile."""
    warnings: tuple[str, ...] = ()
    """Warnings that do not fail the check, such as a speed below the expected one."""

    @property
    def bad(self) -> bool:
        """Whether this result makes the verification fail."""
        return self.status in _BAD


@frozen
class VerifyReport:
    """All results of one run; ``torch`` and ``device`` are empty if the checks that read them failed."""

    suite: str
    python: str
    checks: tuple[CheckResult, ...]
    torch: Mapping[str, Any] = field(default_factory=dict)
    device: Mapping[str, Any] = field(default_factory=dict)
    duration_s: float = 0.0
    operators: Mapping[str, Any] | None = None
    """Of the suite operators: the ``xpubuild.verify-operators/1`` document."""

    asked: tuple[str, ...] = ()
    """The checks that were asked for, without those that they need."""

    @property
    def ran_nothing(self) -> str:
        """Why none of the checks that were asked for was run; empty where one was, or none is known."""
        own = [check for check in self.checks if check.id in self.asked]
        if not own or any(check.status != "skip" for check in own):
            return ""
        return "; ".join(dict.fromkeys(f"{check.id}: {check.detail}" for check in own))

    @property
    def status(self) -> str:
        """Return ``pass`` when a check ran that was asked for, and none failed, crashed or took too long."""
        return "fail" if self.ran_nothing or any(check.bad for check in self.checks) else "pass"

    def count(self) -> dict[str, int]:
        """Return how many checks ended in each status."""
        return {status: sum(check.status == status for check in self.checks) for status in STATUSES}

    def to_json(self) -> dict[str, Any]:
        """Return the document of ``xpubuild verify --json``."""
        document = {"schema": SCHEMA, "status": self.status, "summary": self.count(), **plain(self)}
        if self.operators is None:
            del document["operators"]
        return document
