"""The dtypes and kernels that the device supports."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .context import CheckSkippedError, SuiteContext


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


@contextlib.contextmanager
def memory_of(context: SuiteContext, needed: int) -> Iterator[None]:
    """Skip the check where ``needed`` bytes are not free, also if others take them while it runs.

    An error of the allocator while that much is free is the check's result.
    """
    _require_free(context, needed)
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(context.torch, error):
            raise
        # In the traceback's frames tensors live on; what the process holds counts as free.
        own = context.module.memory_reserved() if hasattr(context.module, "memory_reserved") else 0
        _require_free(context, needed, own)
        raise


def is_out_of_memory(torch: Any, error: BaseException) -> bool:
    """Return whether an error says that memory is used up: by its type, before torch 2.5 by its words."""
    kind = getattr(torch, "OutOfMemoryError", None)
    return isinstance(error, MemoryError) or (
        isinstance(error, kind) if kind is not None else "out of memory" in str(error).lower()
    )


def _require_free(context: SuiteContext, needed: int, own: int = 0) -> None:
    free = free_memory(context) + own
    if free < needed:
        raise CheckSkippedError(f"{free / 2**30:.1f} GiB free, but this needs {needed / 2**30:.1f} GiB")
