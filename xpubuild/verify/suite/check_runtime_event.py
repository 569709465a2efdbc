"""Group ``runtime``: events."""

from __future__ import annotations

import time
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .registry import SMOKE, check
from .runtime import Load, need_streams

_TIMES = 4


def _elapsed(begin: Any, end: Any, context: SuiteContext) -> float:
    try:
        return float(begin.elapsed_time(end))
    except NotImplementedError as error:
        # torch built with a SYCL compiler before 2025.0 cannot tell the time of an XPU event.
        if context.backend.grows_by_release:
            raise CheckSkippedError(str(error).splitlines()[0]) from error
        raise


@check("runtime.event_timing", "elapsed_time between two events matches the work", suites=SMOKE)
def event_timing(context: SuiteContext) -> None:
    """Compare with the host's clock, and the time of four repetitions with the time of one."""
    need_streams(context)
    load = Load(context, 60.0)
    measured: dict[int, list[float]] = {1: [], _TIMES: []}
    for _ in range(3):
        for times, found in measured.items():
            context.module.synchronize()
            begin, end = (context.module.Event(enable_timing=True) for _ in range(2))
            began = time.perf_counter()
            begin.record()
            result = load.queue(times=times)
            end.record()
            end.synchronize()
            wall = (time.perf_counter() - began) * 1000
            elapsed = _elapsed(begin, end, context)
            load.right(result.sum().item(), "after the event")
            problem = f"the events report {elapsed:.3f} ms for the work, the host's clock {wall:.3f} ms"
            require(wall / 10 <= elapsed <= wall * 1.1 + 1, problem)
            found.append(elapsed)
    once, more = min(measured[1]), min(measured[_TIMES])
    context.metric("once_ms", once)
    context.metric("ratio", more / once)
    problem = f"{_TIMES} times the work took {more / once:.2f} times as long by the events"
    require(_TIMES / 2 <= more / once <= _TIMES * 2, problem)
