"""``xpubuild verify --json``."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field

from xpubuild.schema.common import Document, Part
from xpubuild.verify.model import CheckInfo, CheckResult


class VerifiedTorch(Part):
    """The torch that was looked at."""

    version: str
    git_version: str
    xpu: bool
    """Whether it was built with XPU."""
    cxx11_abi: Literal[0, 1]
    xpu_version: str | None
    cuda_version: str | None
    location: str
    python: str
    """Version of the interpreter."""


class Nothing(Part):
    """An empty object."""

    model_config = ConfigDict(json_schema_extra={"maxProperties": 0})


class VerifyCounts(Part):
    """How many checks ended in each status."""

    passed: int = Field(alias="pass")
    fail: int
    skip: int
    crash: int
    timeout: int


class VerifyChecksDocument(Document):
    """The checks, in the order they run."""

    schema_: Literal["xpubuild.verify-checks/1"] = Field(alias="schema", description="Name and version.")
    checks: list[CheckInfo]


class VerifyDocument(Document):
    """What verify found."""

    schema_: Literal["xpubuild.verify/1"] = Field(alias="schema", description="Name and version.")
    status: Literal["pass", "fail"]
    suite: str
    python: str
    torch: VerifiedTorch | Nothing
    """Empty where torch could not be imported."""
    device: dict[str, Any]
    """`type` is xpu, cuda or cpu; the rest is what torch says about the device."""
    duration_s: float
    summary: VerifyCounts
    checks: list[CheckResult]
