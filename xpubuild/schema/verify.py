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


class OperatorStates(Part):
    """How many pairs of operator and type are in each state."""

    passed: int
    failed: int
    known_failure: int = Field(alias="known failure")
    skipped: int
    crashed: int
    timed_out: int = Field(alias="timed out")
    not_run: int = Field(alias="not run")


class OperatorCell(Part):
    """One operator in one type."""

    operator: str
    type: str
    state: Literal["passed", "failed", "known failure", "skipped", "crashed", "timed out", "not run"]
    detail: str
    """What is wrong, or the reason; empty where it passed."""
    seconds: float


class VerifyOperatorsDocument(Document):
    """PyTorch's operator database on a device."""

    schema_: Literal["xpubuild.verify-operators/1"] = Field(alias="schema", description="Name and version.")
    device: str
    type: Literal["xpu", "cuda", "cpu"]
    driver: str
    torch: str
    compared_with: str
    """The accepted run of the baseline; empty without one of this device and driver."""
    total: int
    """Pairs of operator and type that the device should have: what `states` add up to."""
    operators: int
    states: OperatorStates
    runs: dict[str, int]
    """How often each part was run: forward, strided, in-place, out, backward, forward-mode."""
    unexpected: list[str]
    """Known failures that pass."""
    regressions: list[str]
    """Bad now, and passed in the accepted run."""
    accepted: list[str]
    """Bad now, and in the accepted run."""
    cells: list[OperatorCell]


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
    operators: VerifyOperatorsDocument | None = None
    """Of the suite operators alone."""
