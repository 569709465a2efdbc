"""Group ``runtime``: device memory."""

from __future__ import annotations

from typing import Any

from .context import CheckFailedError, SuiteContext, require
from .registry import check
from .runtime import Load, need_api, need_statistics, need_streams

_BYTES = 64 * 2**20
_MIB = 2**20


def _empty(context: SuiteContext, size: int) -> Any:
    return context.torch.empty(size, dtype=context.torch.uint8, device=context.device)


@check("runtime.allocator_statistics", "allocator statistics match allocations and frees")
def allocator_statistics(context: SuiteContext) -> None:
    """Compare the statistics while tensors are allocated and freed."""
    need_statistics(context)
    module = context.module
    module.synchronize()
    module.reset_peak_memory_stats()
    before = module.memory_allocated()
    first, second = _empty(context, _BYTES), _empty(context, 2 * _BYTES)
    held = module.memory_allocated() - before
    problem = f"after allocating {3 * _BYTES} bytes memory_allocated() rose by {held}"
    require(3 * _BYTES <= held <= 3 * _BYTES + 8 * _MIB, problem)
    problem = f"{module.memory_reserved()} bytes are reserved, {module.memory_allocated()} allocated"
    require(module.memory_reserved() >= module.memory_allocated(), problem)
    del second
    held = module.memory_allocated() - before
    problem = f"after freeing 2 of 3 tensors memory_allocated() is {held} bytes higher than before"
    require(_BYTES <= held <= _BYTES + 8 * _MIB, problem)
    peak = module.max_memory_allocated() - before
    require(peak >= 3 * _BYTES, f"the peak is {peak} bytes, but {3 * _BYTES} bytes were allocated at once")
    module.reset_peak_memory_stats()
    peak = module.max_memory_allocated() - before
    require(peak < 2 * _BYTES, f"after the reset the peak is still {peak} bytes")
    del first
    problem = f"{module.memory_allocated() - before} bytes are still allocated after everything was freed"
    require(module.memory_allocated() == before, problem)


@check("runtime.allocator_leak", "repeated work does not leak memory")
def allocator_leak(context: SuiteContext) -> None:
    """Run forward, backward and an exception repeatedly; allocated memory must be the same as before."""
    need_statistics(context)
    torch, module = context.torch, context.module
    weight = torch.full((256, 256), 1 / 256, device=context.device, requires_grad=True)

    def turn() -> None:
        hidden = torch.ones(64, 256, device=context.device)
        for _ in range(4):
            hidden = torch.tanh(hidden @ weight)
        (gradient,) = torch.autograd.grad(hidden.sum(), (weight,))
        require(bool(torch.isfinite(gradient).all()), "a gradient is not finite")
        try:
            hidden @ torch.ones(3, 3, device=context.device)
        except RuntimeError:
            return
        raise CheckFailedError("a product of incompatible shapes raised no error")

    turn()  # libraries keep workspaces from their first call on
    module.synchronize()
    before, reserved = module.memory_allocated(), module.memory_reserved()
    for _ in range(50):
        turn()
    module.synchronize()
    left, grown = module.memory_allocated() - before, module.memory_reserved() - reserved
    context.metric("left_bytes", left)
    require(left == 0, f"50 rounds of the same work left {left} bytes allocated")
    require(grown <= 8 * _MIB, f"50 rounds of the same work made the allocator reserve {grown} bytes more")


@check("runtime.allocator_cache", "freed memory is reused, and empty_cache() releases it")
def allocator_cache(context: SuiteContext) -> None:
    """Free and allocate the same size, then empty the cache; record the driver's figure too."""
    need_statistics(context)
    need_api(context, "empty_cache")
    module = context.module
    module.synchronize()
    module.empty_cache()
    start = module.memory_reserved()
    held = _empty(context, _BYTES)
    reserved = module.memory_reserved()
    require(reserved >= start, f"an allocation made memory_reserved() fall from {start} to {reserved}")
    for _ in range(20):
        del held
        problem = "freeing a tensor released its memory: nothing is cached"
        require(module.memory_reserved() == reserved, problem)
        held = _empty(context, _BYTES)
    again = module.memory_reserved()
    require(again == reserved, f"20 allocations of the same size reserved {again - reserved} more bytes")
    del held
    free = module.mem_get_info()[0] if hasattr(module, "mem_get_info") else None
    module.empty_cache()
    emptied = module.memory_reserved()
    problem = f"empty_cache() left {emptied} of {reserved} bytes reserved, although {_BYTES} were free"
    require(emptied <= reserved - _BYTES, problem)
    if free is not None:
        context.metric("driver_bytes_back", module.mem_get_info()[0] - free)


def _exhausted(context: SuiteContext) -> Any:
    """Return the type of out-of-memory errors."""
    torch = context.torch
    if not context.backend.allocator_statistics:
        return RuntimeError
    return getattr(torch, "OutOfMemoryError", None) or torch.cuda.OutOfMemoryError


def _still_right(context: SuiteContext, when: str) -> None:
    total = context.torch.full((1 << 20,), 0.5, device=context.device).sum().item()
    require(total == 2.0**19, f"{when} a sum is {total} instead of {2.0**19}")


@check("runtime.out_of_memory", "an allocation that is too large raises an error that can be caught")
def out_of_memory(context: SuiteContext) -> None:
    """Allocate far more than available several times: the right error, no leak, and the device stays
    usable."""
    counted = context.backend.allocator_statistics and hasattr(context.module, "memory_allocated")
    # Address spaces end at 2^57 bytes: no machine gives this out, however it overcommits.
    size = 2**58
    before = context.module.memory_allocated() if counted else 0
    for _ in range(3):
        try:
            _empty(context, size)
        except _exhausted(context) as error:
            text = str(error).splitlines()[0]
        else:
            raise CheckFailedError(f"an allocation of {size} bytes succeeded")
        _still_right(context, "after running out of memory")
    problem = f"the error message does not mention memory: {text}"
    require(any(word in text for word in ("memory", "alloc")), problem)
    context.note(text[:120])
    if counted:
        left = context.module.memory_allocated() - before
        require(left == 0, f"failed allocations left {left} bytes allocated")


@check("runtime.allocator_streams", "memory in use by another stream is not reused (record_stream)")
def allocator_streams(context: SuiteContext) -> None:
    """Free a tensor with record_stream before a delayed read of it; then fill the next allocation."""
    need_streams(context)
    torch, module = context.torch, context.module
    load, reader = Load(context), module.Stream()
    number = 1 << 22
    source = torch.full((number,), 3.0, device=context.device)
    result = torch.zeros(number, device=context.device)
    module.synchronize()
    with module.stream(reader):
        load.queue()
        result.copy_(source)
    source.record_stream(reader)
    del source
    others = [torch.full((number,), 9.0, device=context.device) for _ in range(3)]
    reader.synchronize()
    found = result.sum().item() / number
    require(found == 3.0, f"a stream read {found} instead of 3: its memory was reused before the read")
    require(others[0][0].item() == 9.0, "a tensor that was filled with 9 contains other values")
