"""``xpubuild verify --json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from xpubuild.schema.common import Document, Part

CheckStatus = Literal["pass", "fail", "skip", "crash", "timeout"]


class VerifiedTorch(Part):
    """The torch that was looked at."""

    version: str
    git_version: str
    xpu: bool = Field(description="Whether it was built with XPU.")
    cxx11_abi: Literal[0, 1]
    xpu_version: str | None
    cuda_version: str | None
    location: str
    python: str = Field(description="Version of the interpreter.")


class Nothing(Part):
    """An empty object."""

    model_config = ConfigDict(json_schema_extra={"maxProperties": 0})


class VerifyCheck(Part):
    """One check and its result."""

    id: str
    title: str
    group: str
    status: CheckStatus
    duration_s: float
    detail: str
    metrics: dict[str, Any]
    output: list[str] = Field(description="Last lines that its process printed meanwhile.")
    warnings: list[str] = Field(default=[], description="Worth a look, and no failure.")


class VerifyCounts(Part):
    """How many checks ended in each status."""

    passed: int = Field(alias="pass")
    fail: int
    skip: int
    crash: int
    timeout: int


class ListedCheck(Part):
    """A check that verify can run."""

    id: str
    title: str
    group: str
    needs: list[str] = Field(description="Checks that must pass before this one says anything.")
    suites: list[str]
    deadline_s: float


class VerifyChecksDocument(Document):
    """The checks, in the order they run."""

    schema_: Literal["xpubuild.verify-checks/1"] = Field(alias="schema", description="Name and version.")
    checks: list[ListedCheck]


class VerifyDocument(Document):
    """What verify found."""

    schema_: Literal["xpubuild.verify/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["pass", "fail"]
    suite: str
    python: str
    torch: VerifiedTorch | Nothing = Field(description="Empty where torch could not be imported.")
    device: dict[str, Any] = Field(
        description="`type` is xpu, cuda or cpu; the rest is what torch says about the device."
    )
    duration_s: float
    summary: VerifyCounts
    checks: list[VerifyCheck]
