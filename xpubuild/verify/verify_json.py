"""``xpubuild verify --json``."""

from __future__ import annotations

from typing import Any, Literal

from typing_extensions import NotRequired, TypedDict

from xpubuild.verify.model import CheckInfo, CheckResult


class VerifiedTorch(TypedDict):
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


class Nothing(TypedDict):
    """An empty object."""


#: How many checks ended in each status.
VerifyCounts = TypedDict(
    "VerifyCounts", {"pass": int, "fail": int, "skip": int, "crash": int, "timeout": int}
)


class VerifyChecksDocument(TypedDict):
    """The checks, in the order they run."""

    schema: Literal["xpubuild.verify-checks/1"]
    """Name and version."""
    checks: list[CheckInfo]


OperatorState = Literal["passed", "failed", "known failure", "skipped", "crashed", "timed out", "not run"]
#: How many pairs of operator and type are in each state.
OperatorStates = TypedDict(
    "OperatorStates",
    {
        "passed": int, "failed": int, "known failure": int, "skipped": int, "crashed": int, "timed out": int,
        "not run": int,
    },
)  # fmt: skip


class OperatorCell(TypedDict):
    """One operator in one type."""

    operator: str
    type: str
    state: OperatorState
    detail: str
    """What is wrong, or the reason; empty where it passed."""
    seconds: float


class VerifyOperatorsDocument(TypedDict):
    """PyTorch's operator database on a device."""

    schema: Literal["xpubuild.verify-operators/1"]
    """Name and version."""
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
    """How many pairs of operator and type are in each state."""
    runs: dict[str, int]
    """How often each part was run: forward, strided, in-place, out, backward."""
    unexpected: list[str]
    """Known failures that pass."""
    regressions: list[str]
    """Bad now, and passed in the accepted run."""
    accepted: list[str]
    """Bad now, and in the accepted run."""
    cells: list[OperatorCell]


class VerifyDocument(TypedDict):
    """What verify found."""

    schema: Literal["xpubuild.verify/1"]
    """Name and version."""
    status: Literal["pass", "fail"]
    suite: str
    python: str
    torch: VerifiedTorch | Nothing
    """Empty where torch could not be imported."""
    device: dict[str, Any]
    """`type` is xpu, cuda or cpu; the rest is what torch says about the device."""
    duration_s: float
    summary: VerifyCounts
    asked: list[str]
    """The checks that were asked for; where none of them ran, nothing is verified, and the status is fail."""
    checks: list[CheckResult]
    operators: NotRequired[VerifyOperatorsDocument | None]
    """Of the suite operators alone."""
