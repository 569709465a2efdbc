"""Whether work ran where it was meant to."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from .context import Context, require


def require_placed(context: Context, what: str, tensors: Iterable[Any]) -> None:
    """Fail unless every tensor is on the device under test."""
    elsewhere = sorted(
        {str(tensor.device) for tensor in tensors if tensor.device.type != context.backend.name}
    )
    require(not elsewhere, f"{what} on {', '.join(elsewhere)} instead of {context.backend.name}")


class DeviceMemory:
    """Fails the check unless the work inside took at least ``expected_bytes`` from the device's allocator.

    A fall-back to the CPU keeps results right and the allocator still. Where a backend has no statistics
    (the CPU; xpu before torch 2.6) nothing is measured.
    """

    def __init__(self, context: Context, expected_bytes: int) -> None:
        self._context = context
        self._expected = expected_bytes
        self._measured = context.backend.allocator_statistics and hasattr(context.module, "memory_allocated")

    def __enter__(self) -> DeviceMemory:
        if self._measured:
            module = self._context.module
            module.synchronize()
            module.reset_peak_memory_stats()
            self._before = module.memory_allocated()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self._measured:
            return
        module = self._context.module
        module.synchronize()
        taken = module.max_memory_allocated() - self._before
        self._context.metric("device_memory_bytes", taken)
        require(
            taken >= self._expected,
            f"the device's allocator gave out {taken} bytes for work that needs at least {self._expected}: "
            "it did not run there",
        )
