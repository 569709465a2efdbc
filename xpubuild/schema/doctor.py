"""``xpubuild doctor --json`` and ``xpubuild doctor --list --json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from xpubuild.schema.common import Document, Part

ProfileName = Literal["build", "run"]
Severity = Literal["warn", "fail"]


class DoctorFix(Part):
    """What to do about a finding."""

    summary: str
    commands: list[str] = Field(description="What to type, on the distribution of the host.")


class DoctorCheck(Part):
    """One check and its result."""

    id: str
    title: str = Field(description="What holds where the check is ok.")
    status: Literal["ok", "warn", "fail", "skip", "error"] = Field(
        description="`skip`: the question does not arise or cannot be answered here;"
        " `error`: the check itself came to no answer."
    )
    detail: str = Field(description="What was found, in a sentence or two.")
    evidence: dict[str, Any] = Field(description="What the finding rests on; its keys depend on the check.")
    fix: DoctorFix | None
    docs: str | None = Field(description="Page about the check; null for a plug-in that names none.")
    severity: Severity = Field(description="The status that a finding of this check has by default.")
    profiles: list[ProfileName]
    duration_s: float


class DoctorCounts(Part):
    """How many checks ended in each status."""

    fail: int
    error: int
    warn: int
    ok: int
    skip: int


class Able(Part):
    """Whether nothing was found that speaks against it; null where that was not, or not wholly, asked."""

    run: bool | None
    build: bool | None


class DoctorGpu(Part):
    """A display controller, of whatever vendor."""

    pci_address: str
    vendor_id: str
    device_id: str
    name: str
    family: str
    kernel_driver: str | None
    render_node: str | None
    accessible: bool | None = Field(description="Whether this user could open the render node.")
    numa_node: int | None
    tiles: int | None


class DoctorHost(Part):
    """The machine. Text that could not be read is `unknown`, a number or yes/no is null."""

    gpus: list[DoctorGpu]
    drivers: list[dict[str, Any]]
    os: dict[str, Any]
    cpu: dict[str, Any]
    memory: dict[str, Any]
    disk: dict[str, Any]
    oneapi: list[dict[str, Any]]
    python: dict[str, Any]
    compilers: list[dict[str, Any]]
    tools: list[dict[str, Any]]


class DoctorDocument(Document):
    """What doctor found."""

    schema_: Literal["xpubuild.doctor/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["ok", "warn", "fail"] = Field(
        description="`fail` where a check failed or came to no answer: the exit status is 10 then."
    )
    verdict: str = Field(description="The first line of the text output.")
    able: Able
    xpubuild: str = Field(description="Version of xpubuild.")
    profiles: list[ProfileName] = Field(description="What was asked about.")
    recipe: str | None
    root: str = Field(description="What was looked at: / is the running machine.")
    python: str | None = Field(description="The interpreter whose torch was looked at.")
    summary: DoctorCounts
    host: DoctorHost
    checks: list[DoctorCheck]


class ListedDoctorCheck(Part):
    """A check that doctor can run."""

    id: str
    title: str
    group: str
    severity: Severity
    profiles: list[ProfileName]
    needs: list[str] = Field(description="Checks that must end ok or warn before this one says anything.")
    families: list[str] = Field(description="Families of failures that the check foresees.")
    live: bool = Field(description="Whether only the running machine can answer.")
    recipe: bool = Field(description="Whether it asks about a recipe.")
    deadline_s: float
    docs: str | None
    explanation: str = Field(description="What is looked at, why it matters, how to mend it (Markdown).")


class DoctorChecksDocument(Document):
    """The checks of xpubuild and of plug-ins, in the order they are shown."""

    schema_: Literal["xpubuild.doctor-checks/1"] = Field(alias="schema", description="Name and version.")
    checks: list[ListedDoctorCheck]
