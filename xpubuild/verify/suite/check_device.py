"""Group ``device``: the runtime underneath everything else."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from .context import CheckFailedError, SuiteContext, require
from .registry import SMOKE, check

_PROPERTIES = (
    "total_memory", "driver_version", "platform_name", "max_compute_units", "gpu_eu_count",
    "gpu_subslice_count", "multi_processor_count", "major", "minor", "has_fp64", "has_fp16",
)  # fmt: skip


@check("device.availability", "the device is available", needs=("import.torch",), suites=SMOKE)
def availability(context: SuiteContext) -> None:
    """Distinguish a torch without the backend from a machine without the device."""
    name = context.backend.name
    if name == "cpu":
        return
    torch = context.torch
    compiled = torch.xpu._is_compiled() if name == "xpu" else torch.version.cuda is not None
    require(compiled, f"this torch ({torch.__version__}) was built without {name.upper()}")
    problem = f"torch has {name.upper()}, but finds no device: {context.backend.absent_hint}"
    require(context.module.is_available(), problem)
    torch.ones(1, device=context.device).item()


@check("device.count", "every device can be used", suites=SMOKE)
def count(context: SuiteContext) -> None:
    """Run a small computation on each device of `device_count()`."""
    number = context.module.device_count()
    context.metric("devices", number)
    require(number >= 1, f"device_count() is {number}")
    for index in range(number):
        value = context.torch.full((8,), index + 1.0, device=f"{context.backend.name}:{index}").sum().item()
        require(value == 8 * (index + 1), f"device {index}: a sum is {value} instead of {8 * (index + 1)}")
    context.note(f"{number} device{'s' if number > 1 else ''}")


@check("device.properties", "device properties are reported", suites=SMOKE)
def properties(context: SuiteContext) -> None:
    """Record name, memory and the properties of the backend."""
    facts = _processor(context) if context.backend.name == "cpu" else _accelerator(context)
    context.facts["device"] = facts
    require(facts["name"], "the device has no name")
    require(facts["total_memory"] > 0, f"the device reports {facts['total_memory']} bytes of memory")
    context.note(f"{facts['name']}, {facts['total_memory'] / 2**30:.0f} GiB")


def _accelerator(context: SuiteContext) -> dict[str, Any]:
    index = context.module.current_device()
    reported = context.module.get_device_properties(index)
    facts = {"type": context.backend.name, "index": index, "name": str(reported.name)}
    facts["count"] = context.module.device_count()
    for name in _PROPERTIES:
        value = getattr(reported, name, None)
        if isinstance(value, (bool, int, float, str)):
            facts[name] = value
    facts.setdefault("total_memory", 0)
    return facts


def _processor(context: SuiteContext) -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return {
        "type": "cpu",
        "index": 0,
        "name": names[0] if names else platform.machine(),
        "count": 1,
        "threads": context.torch.get_num_threads(),
        "capability": context.torch.backends.cpu.get_cpu_capability(),
        "total_memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


@check("device.synchronize", "synchronize() waits for all queued work", suites=SMOKE)
def synchronize(context: SuiteContext) -> None:
    """Queue some milliseconds of work; after synchronize() an event recorded after it must be complete."""
    torch, module = context.torch, context.module
    side = 4096 if context.backend.streams else 256
    values = torch.full((side, side), 1.0 / side, device=context.device)
    event = module.Event() if context.backend.streams else None
    for _ in range(10):
        values = values @ values
    if event is not None:
        event.record()
    module.synchronize()
    require(event is None or event.query(), "synchronize() returned before the queued work was done")
    require(abs(values.sum().item() / side - 1.0) < 1e-3, "the result after synchronize() is wrong")


@check(
    "device.out_of_bounds",
    "an index out of bounds is a Python error, and the device stays usable",
    suites=SMOKE,
)
def out_of_bounds(context: SuiteContext) -> None:
    """Access an element and a device that do not exist, then compute something."""
    torch = context.torch
    values = torch.arange(3, device=context.device)
    _raises(IndexError, lambda: values[5], "index 5 of 3 elements")
    if context.backend.device_index_checked:
        beyond = f"{context.backend.name}:{context.module.device_count()}"
        _raises(
            (RuntimeError, AssertionError), lambda: torch.empty(1, device=beyond), f"a tensor on {beyond}"
        )
    require(int(values.sum().item()) == 3, "the device gives wrong results after the error")


def _raises(kinds: Any, call: Any, what: str) -> None:
    try:
        call()
    except kinds:
        return
    raise CheckFailedError(f"{what} raised no error")
