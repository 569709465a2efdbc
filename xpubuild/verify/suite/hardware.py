"""What the device can compute in."""

from __future__ import annotations

from typing import Any

from .context import Context


def has_float64(context: Context) -> bool:
    """Return whether the device has float64: Arc GPUs have none, and say so."""
    if context.backend.name == "cpu":
        return True
    return bool(getattr(context.module.get_device_properties(), "has_fp64", True))


def float_types(context: Context) -> tuple[Any, ...]:
    """Return the floating types that checks go through; float64 last, where the device has it."""
    torch = context.torch
    types = (torch.float32, torch.bfloat16, torch.float16)
    if has_float64(context):
        return (*types, torch.float64)
    context.note("no float64 on this device")
    return types


def has_kernel(context: Context, operator: str) -> bool:
    """Return whether this torch has a kernel of its own for the operator on the backend."""
    try:
        return bool(
            context.torch._C._dispatch_has_kernel_for_dispatch_key(operator, context.backend.dispatch_key)
        )
    except RuntimeError:  # no operator of that name
        return False


def free_memory(context: Context) -> int:
    """Return the bytes that can still be had on the device; of the whole memory where nothing says more."""
    module = context.module
    if context.backend.name == "cpu":
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - a pseudo file, read as a stream
            figures = dict(line.split(":", 1) for line in file)
        return int(figures["MemAvailable"].split()[0]) * 1024
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info()[0])
    return int(module.get_device_properties().total_memory)
