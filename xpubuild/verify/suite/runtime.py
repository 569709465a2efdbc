"""What the checks of streams, events, memory and copies have in common."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any

from .context import CheckFailedError, CheckSkippedError, SuiteContext, require

_SIDE = 2048
_MOST_STEPS = 600


def need_streams(context: SuiteContext) -> None:
    """Skip if a backend has no streams, or if launches are synchronous."""
    if not context.backend.streams:
        raise CheckSkippedError(f"{context.backend.name} has no streams")
    for name in context.backend.blocking_variables:
        if os.environ.get(name, "0") not in ("", "0"):
            raise CheckSkippedError(f"{name}={os.environ[name]} makes kernel launches synchronous")


def need_api(context: SuiteContext, *names: str) -> None:
    """Skip if this release's module lacks functions; fail if every release has them."""
    missing = [name for name in names if not hasattr(context.module, name)]
    if not missing:
        return
    lacking = f"torch.{context.backend.name} of torch {context.torch.__version__} has no {', '.join(missing)}"
    if context.backend.grows_by_release:
        raise CheckSkippedError(lacking)
    raise CheckFailedError(lacking)


def need_statistics(context: SuiteContext) -> None:
    """Skip if the backend has no allocator statistics."""
    if not context.backend.allocator_statistics:
        raise CheckSkippedError(f"{context.backend.name} has no caching allocator")
    need_api(
        context, "memory_allocated", "memory_reserved", "max_memory_allocated", "reset_peak_memory_stats"
    )


def need_devices(context: SuiteContext, number: int) -> int:
    """Return the number of devices; skip if there are fewer than ``number``."""
    found = int(context.module.device_count())
    if found < number:
        raise CheckSkippedError(f"{found} device{'' if found == 1 else 's'} visible, but {number} needed")
    return found


def _raise() -> None:
    raise LookupError


def leave_by_exception(manager: Any, inside: Callable[[], None] = lambda: None) -> None:
    """Enter a context, run ``inside`` and leave by an exception that has to come through."""
    try:
        with manager:
            inside()
            _raise()
    except LookupError:
        return
    raise CheckFailedError(f"{type(manager).__name__} swallows exceptions")


class Load:
    """Work that keeps the device busy for about ``milliseconds``, so that missing synchronization is noticed.

    ``queue`` returns a matrix that is ``value`` everywhere, once the work is done.
    """

    def __init__(self, context: SuiteContext, milliseconds: float = 150.0) -> None:
        torch = context.torch
        self.value = 1.0 / _SIDE
        self._matrix = torch.full((_SIDE, _SIDE), self.value, device=context.device)
        self._matrix @ self._matrix  # libraries that initialise themselves on first use wait for the device
        context.module.synchronize()
        began = time.perf_counter()
        for _ in range(4):
            self._matrix @ self._matrix
        context.module.synchronize()
        self.each_ms = (time.perf_counter() - began) * 1000 / 4
        self.steps = min(_MOST_STEPS, max(2, math.ceil(milliseconds / max(self.each_ms, 1e-3))))
        context.metric("load_ms", self.each_ms * self.steps)

    def queue(self, *, times: int = 1) -> Any:
        """Queue the work on the current stream and return its result, which is not complete yet."""
        product = self._matrix
        for _ in range(self.steps * times):
            product = product @ self._matrix
        return product

    def right(self, total: float, what: str) -> None:
        """Fail unless ``total`` is the sum of the result of ``queue``."""
        expected = self.value * _SIDE * _SIDE
        require(abs(total / expected - 1.0) < 1e-2, f"{what}: the sum is {total} instead of {expected}")
