"""``xpubuild doctor --json`` and ``xpubuild doctor --list --json``."""

from __future__ import annotations

from typing import Literal

from typing_extensions import TypedDict

from xpubuild.doctor.runner import Result
from xpubuild.machine.host_report import HostReport

ProfileName = Literal["build", "run"]
Severity = Literal["warn", "fail"]


class DoctorCounts(TypedDict):
    """How many checks ended in each status."""

    fail: int
    error: int
    warn: int
    ok: int
    skip: int


class Able(TypedDict):
    """True if no check failed; null if not all of its checks ran."""

    run: bool | None
    build: bool | None


class DoctorDocument(TypedDict):
    """What doctor found."""

    schema: Literal["xpubuild.doctor/1"]
    """Name and version."""
    status: Literal["ok", "warn", "fail"]
    """`fail`: a check failed or could not complete (exit code 10)."""
    verdict: str
    """The first line of the text output."""
    able: Able
    xpubuild: str
    """Version of xpubuild."""
    profiles: list[ProfileName]
    """What was asked about."""
    recipe: str | None
    root: str
    """What was looked at: / is the running machine."""
    python: str | None
    """The interpreter whose torch was looked at."""
    summary: DoctorCounts
    host: HostReport
    checks: list[Result]


class ListedDoctorCheck(TypedDict):
    """A check that doctor can run."""

    id: str
    title: str
    group: str
    severity: Severity
    profiles: list[ProfileName]
    needs: list[str]
    """Checks that must end ok or warn before this one says anything."""
    families: list[str]
    """Families of failures that the check foresees."""
    live: bool
    """Whether only the running machine can answer."""
    recipe: bool
    """Whether it asks about a recipe."""
    deadline_s: float
    docs: str | None
    explanation: str
    """What is looked at, why it matters, how to mend it (Markdown)."""


class DoctorChecksDocument(TypedDict):
    """The checks of xpubuild and of plug-ins, in the order they are shown."""

    schema: Literal["xpubuild.doctor-checks/1"]
    """Name and version."""
    checks: list[ListedDoctorCheck]
