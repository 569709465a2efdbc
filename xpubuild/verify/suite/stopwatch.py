"""Measurement: warm-up, the device's own clock if it has one, and the median of several samples."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from .context import SuiteContext

_WARM_UP = 3
_SAMPLES = 9
#: A sample shorter than this is repeated within one measurement: clocks and launches would show.
_SHORTEST_S = 0.004
_MOST_S = 1.5


def seconds(context: SuiteContext, function: Callable[[], Any]) -> float:
    """Return the median time of one call, work on the device included."""
    for _ in range(_WARM_UP):
        function()
    context.module.synchronize()
    once = _sample(context, function, 1)
    if once <= 0:
        return once
    repeats = max(1, min(1000, int(_SHORTEST_S / max(once, 1e-7))))
    end = time.monotonic() + _MOST_S
    found: list[float] = []
    while len(found) < _SAMPLES and (time.monotonic() < end or len(found) < 3):
        found.append(_sample(context, function, repeats))
    return statistics.median(found)


def _sample(context: SuiteContext, function: Callable[[], Any], repeats: int) -> float:
    if not context.backend.streams:
        start = time.perf_counter()
        for _ in range(repeats):
            function()
        return (time.perf_counter() - start) / repeats
    module = context.module
    begin, end = module.Event(enable_timing=True), module.Event(enable_timing=True)
    module.synchronize()
    begin.record()
    for _ in range(repeats):
        function()
    end.record()
    module.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / repeats


def wall_seconds(context: SuiteContext, function: Callable[[], Any], calls: int) -> float:
    """Return the median time on the host for one of ``calls`` calls and the wait for the last."""
    found: list[float] = []
    for _ in range(_SAMPLES):
        context.module.synchronize()
        start = time.perf_counter()
        for _ in range(calls):
            function()
        context.module.synchronize()
        found.append((time.perf_counter() - start) / calls)
    return statistics.median(found[1:])
