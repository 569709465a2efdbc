"""The number of compiler processes that can run in parallel. Pure."""

from __future__ import annotations

from typing import Literal

from xpubuild.frozen import frozen

_GIB = 1 << 30
#: One part of so many of the memory, and at least a GiB, is for all that is no compiler.
_RESERVE = 20


@frozen
class JobPlan:
    """``reason`` says in words where the number comes from.

    With ``budget_bytes`` compilers have to wait for memory; ``other_jobs`` is then the number for builds
    whose compilers cannot.
    """

    jobs: int
    reason: str
    budget_bytes: int | None = None
    other_jobs: int = 0


@frozen
class LargeUnit:
    """Units that need far more memory than the rest: most ``each_bytes``, one ``largest_bytes``."""

    what: str
    each_bytes: int
    largest_bytes: int


def plan_jobs(
    cores: int | None,
    memory_bytes: int | None,
    requested: int | Literal["auto"] = "auto",
    per_job_bytes: int = 2 * _GIB,
    large: LargeUnit | None = None,
    *,
    can_wait: bool = False,
) -> JobPlan:
    """Return the number of jobs: what was asked for, else the smaller of cores and what memory allows.

    ``cores`` and ``memory_bytes`` are what this process may use (None: unknown). ``large`` are the units that
    need most: one of the largest must fit beside as many usual ones as there are other jobs. A number that
    was asked for is kept; the reason then says where memory may not suffice. If compilers ``can_wait`` for
    memory, it does not limit their number: where it would, they wait.
    """
    need = large or LargeUnit("", per_job_bytes, per_job_bytes)
    allowed = _allowed(memory_bytes, need) if memory_bytes is not None else None
    short = large is not None and memory_bytes is not None and memory_bytes < large.largest_bytes
    words = "" if allowed is None else _memory_words(memory_bytes or 0, allowed, need)
    wanted = (cores or 1) if requested == "auto" else max(1, requested)
    if can_wait and memory_bytes is not None and allowed is not None and (allowed < wanted or short):
        budget = max(memory_bytes - max(_GIB, memory_bytes // _RESERVE), memory_bytes // 2)
        known = f"{wanted} of {cores} cores" if requested == "auto" and cores else f"{wanted} requested"
        waiting = f"{known}; compilers wait for memory, {_gib(budget)} GiB for all"
        if short:
            largest = f"{_gib(need.largest_bytes)} GiB ({need.what})"
            waiting += f", and may still run out of it: the largest needs {largest}"
        return JobPlan(wanted, waiting, budget, min(wanted, allowed))
    if requested != "auto":
        jobs = max(1, requested)
        if allowed is not None and (allowed < jobs or short):
            return JobPlan(jobs, f"{jobs} requested; {words}, so memory may run out")
        return JobPlan(jobs, f"{jobs} requested")
    jobs = min(bound for bound in (cores or 1, allowed) if bound is not None)
    known = f"{jobs} of {cores} cores" if cores else "1 job; the number of cores is unknown"
    if allowed is None:
        return JobPlan(jobs, f"{known}; free memory is unknown")
    return JobPlan(jobs, f"{known}; {words}" + (", and may still run out" if short else ""))


def _allowed(memory_bytes: int, need: LargeUnit) -> int:
    return max(1, 1 + (memory_bytes - need.largest_bytes) // need.each_bytes)


def _memory_words(memory_bytes: int, allowed: int, need: LargeUnit) -> str:
    words = f"memory {_gib(memory_bytes)} GiB allows {allowed} at {_gib(need.each_bytes)} GiB each"
    if need.largest_bytes == need.each_bytes:
        return words
    return f"{words}, the largest {_gib(need.largest_bytes)} GiB ({need.what})"


def _gib(count: int) -> str:
    return f"{count / _GIB:.1f}".removesuffix(".0")
