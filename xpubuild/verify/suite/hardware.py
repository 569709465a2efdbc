"""The dtypes and kernels that the device supports."""

from __future__ import annotations

from typing import Any

from .context import SuiteContext


def has_float64(context: SuiteContext) -> bool:
    """Return whether the device supports float64: Arc GPUs do not, and report it."""
    if context.backend.name == "cpu":
        return True
    return bool(getattr(context.module.get_device_properties(), "has_fp64", True))


def float_types(context: SuiteContext) -> tuple[Any, ...]:
    """Return the floating-point dtypes to test; float64 last, if the device supports it."""
    torch = context.torch
    types = (torch.float32, torch.bfloat16, torch.float16)
    if has_float64(context):
        return (*types, torch.float64)
    context.note("no float64 on this device")
    return types


#: torch's functions that return whether oneDNN supports a dtype on this CPU, under ONEDNN_MAX_CPU_ISA.
_ONEDNN_HAS = {"bfloat16": "_is_mkldnn_bf16_supported", "float16": "_is_mkldnn_fp16_supported"}


def onednn_computes_in(context: SuiteContext, dtype: Any) -> bool:
    """Return whether oneDNN supports ``dtype`` on this device; float16 needs avx512_fp16 on most CPUs.

    torch's CPU code uses the same functions: its fused operators reject the dtype, and plain convolutions
    use ATen's kernels instead of oneDNN's. On other devices oneDNN supports all dtypes of the device.
    """
    torch = context.torch
    if context.backend.name != "cpu" or dtype == torch.float32:
        return True
    question = _ONEDNN_HAS.get(str(dtype).partition(".")[2])
    if question is None or not torch.backends.mkldnn.is_available():
        return False
    return bool(getattr(torch.ops.mkldnn, question)())


def has_kernel(context: SuiteContext, operator: str) -> bool:
    """Return whether this torch has a kernel for the operator on the backend."""
    try:
        return bool(
            context.torch._C._dispatch_has_kernel_for_dispatch_key(operator, context.backend.dispatch_key)
        )
    except RuntimeError:  # no operator with that name
        return False


def free_memory(context: SuiteContext) -> int:
    """Return the free bytes on the device, or its total memory if the free bytes are unknown."""
    module = context.module
    if context.backend.name == "cpu":
        with open("/proc/meminfo", encoding="ascii") as file:  # noqa: PTH123 - a pseudo file, read as a stream
            figures = dict(line.split(":", 1) for line in file)
        return int(figures["MemAvailable"].split()[0]) * 1024
    if hasattr(module, "mem_get_info"):
        return int(module.mem_get_info()[0])
    return int(module.get_device_properties().total_memory)
