"""How many compiler processes may run side by side. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_GIB = 1 << 30


@dataclass(frozen=True)
class JobPlan:
    """``reason`` says in words where the number comes from."""

    jobs: int
    reason: str


def plan_jobs(
    cores: int | None,
    memory_bytes: int | None,
    requested: int | Literal["auto"] = "auto",
    per_job_bytes: int = 2 * _GIB,
) -> JobPlan:
    """Return the number of jobs: what was asked for, else the smaller of cores and what memory allows.

    ``cores`` and ``memory_bytes`` are what this process may use (None: unknown). A number that was asked for
    is kept; the reason then says where memory may not suffice.
    """
    allowed = max(1, memory_bytes // per_job_bytes) if memory_bytes is not None else None
    if requested != "auto":
        jobs = max(1, requested)
        if allowed is not None and allowed < jobs:
            words = _memory_words(memory_bytes, allowed, per_job_bytes)
            return JobPlan(jobs, f"{jobs} asked for; {words}, so memory may run out")
        return JobPlan(jobs, f"{jobs} asked for")
    jobs = min(bound for bound in (cores or 1, allowed) if bound is not None)
    known = f"{jobs} of {cores} cores" if cores else "1 job; the number of cores is unknown"
    if allowed is None:
        return JobPlan(jobs, f"{known}; free memory is unknown")
    return JobPlan(jobs, f"{known}; {_memory_words(memory_bytes, allowed, per_job_bytes)}")


def _memory_words(memory_bytes: int | None, allowed: int, per_job_bytes: int) -> str:
    return f"memory {_gib(memory_bytes or 0)} GiB allows {allowed} at {_gib(per_job_bytes)} GiB each"


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f}".removesuffix(".0")
