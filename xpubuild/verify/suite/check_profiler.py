"""Group ``profiler``: Kineto records the work of the device, with names, counts and durations."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .registry import check

_STEPS = 5
_SIDE = 512


def _recorded(context: SuiteContext) -> Any:
    """Return a profile of ``_STEPS`` matrix products, each followed by a sum."""
    from torch import profiler

    torch, name = context.torch, context.backend.activity
    wanted = getattr(profiler.ProfilerActivity, name, None)
    if wanted is None or wanted not in profiler.supported_activities():
        # A torch for a device that cannot record it was built without Kineto's part for it (XPU: PTI).
        require(context.backend.name == "cpu", f"this torch's profiler has no {name} activity")
        raise CheckSkippedError("this torch was built without Kineto")
    matrix = torch.full((_SIDE, _SIDE), 1.0 / _SIDE, device=context.device)
    (matrix @ matrix).sum().item()  # libraries initialise themselves on first use
    context.module.synchronize()
    with profiler.profile(activities={profiler.ProfilerActivity.CPU, wanted}) as profile:
        for _ in range(_STEPS):
            (matrix @ matrix).sum()
        context.module.synchronize()
    return profile


def _on_device(context: SuiteContext, profile: Any) -> list[Any]:
    """Return the events that are work of the device itself; on the CPU those are its operators."""
    return [event for event in profile.events() if event.device_type.name == context.backend.activity]


@check("profiler.kernels", "the profiler records the device's kernels")
def kernels(context: SuiteContext) -> None:
    """Record matrix products and sums; each must be present, take time, and start after the previous one."""
    profile = _recorded(context)
    operators = [event for event in profile.events() if event.name == "aten::mm"]
    require(len(operators) == _STEPS, f"the profiler recorded {len(operators)} of {_STEPS} calls of aten::mm")
    seen = _on_device(context, profile)
    what = "operators" if context.backend.name == "cpu" else "kernels"
    context.metric(what, len(seen))
    problem = f"the profiler recorded {len(seen)} {context.backend.activity} {what} of at least {2 * _STEPS}"
    require(len(seen) >= 2 * _STEPS, problem)
    lasting = [event for event in seen if event.time_range.elapsed_us() > 0]
    require(len(lasting) >= _STEPS, f"{len(seen) - len(lasting)} of {len(seen)} {what} took no time")
    longest = max(seen, key=lambda event: event.time_range.elapsed_us())
    context.metric("longest", str(longest.name)[:120])
    context.note(f"{len(seen)} {what}, the longest {longest.time_range.elapsed_us():.0f} us")


@check("profiler.trace", "the profiler's trace file contains the device's work")
def trace(context: SuiteContext) -> None:
    """Export a trace as JSON, read it back and count events with a duration."""
    profile = _recorded(context)
    with tempfile.TemporaryDirectory(prefix="trace-") as folder:
        path = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(path))
        events = json.loads(path.read_text("utf-8"))["traceEvents"]
    category = "cpu_op" if context.backend.name == "cpu" else "kernel"
    found = [event for event in events if event.get("cat") == category and float(event.get("dur", 0)) > 0]
    context.metric("events", len(events))
    require(len(found) >= 2 * _STEPS, f"the trace contains {len(found)} events of category {category}")
