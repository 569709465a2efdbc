"""Group ``runtime``: contexts restore what they change; device properties are consistent."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .registry import check
from .runtime import leave_by_exception, need_api, need_devices, need_streams


def _restored(what: str, now: Callable[[], Any], contexts: dict[Any, Callable[[], Any]]) -> None:
    """Enter each context and another one inside, leave them normally and by an exception.

    ``contexts`` maps what is current inside a context to what creates it; ``now`` returns what is current.
    """
    before = now()

    def expect(wanted: Any, when: str) -> None:
        require(now() == wanted, f"{when} the {what} is {now()} instead of {wanted}")

    def nested(wanted: Any) -> None:
        expect(wanted, "inside of its context")
        for other, make in contexts.items():
            with make():
                expect(other, "inside of an inner context")
            expect(wanted, "after an inner context")

    for wanted, make in contexts.items():
        with make():
            nested(wanted)
        expect(before, "after the context")
        leave_by_exception(make(), partial(nested, wanted))
        expect(before, "after an exception")


@check("runtime.guard_default", "the default device is restored, also after an exception")
def guard_default(context: SuiteContext) -> None:
    """Create tensors inside ``torch.device`` contexts; leave them normally and by an exception."""
    torch, name = context.torch, context.backend.name
    made = {name: lambda: torch.device(context.device), "meta": lambda: torch.device("meta")}
    _restored("default device", lambda: torch.ones(2).device.type, made)


@check("runtime.guard_autocast", "autocast is restored, also after an exception")
def guard_autocast(context: SuiteContext) -> None:
    """Multiply inside and outside autocast to bfloat16."""
    torch, name = context.torch, context.backend.name
    matrix = torch.ones(16, 16, device=context.device)
    made = {
        torch.bfloat16: lambda: torch.autocast(name, dtype=torch.bfloat16),
        torch.float32: lambda: torch.autocast(name, enabled=False),
    }
    _restored("type of a product", lambda: (matrix @ matrix).dtype, made)


@check("runtime.guard_device", "the current device is restored, also after an exception")
def guard_device(context: SuiteContext) -> None:
    """Enter every device in turn, nested and with an exception; tensors are created on the current one."""
    if not context.backend.device_index_checked:
        raise CheckSkippedError(f"{context.backend.name} has only one device")
    need_api(context, "device", "current_device", "set_device")
    torch, module, name = context.torch, context.module, context.backend.name

    def now() -> int:
        index, made = module.current_device(), torch.ones(4, device=name).device
        require(made.index == index, f"with the current device {index} a tensor is on {made}")
        return int(index)

    number, before = module.device_count(), now()
    _restored("current device", now, {index: partial(module.device, index) for index in range(number)})
    try:
        module.set_device(number)
    except (RuntimeError, AssertionError, ValueError):
        pass
    else:
        raise CheckFailedError(f"device {number} of {number} can be made current")
    require(now() == before, "making a missing device current changed the current device")


@check("runtime.guard_stream", "the current stream is restored, also after an exception")
def guard_stream(context: SuiteContext) -> None:
    """Nest stream contexts and leave one by an exception."""
    need_streams(context)
    module = context.module
    streams = [module.Stream(), module.Stream()]
    made: dict[Any, Callable[[], Any]] = {stream: partial(module.stream, stream) for stream in streams}
    _restored("current stream", module.current_stream, made)


@check("runtime.guard_streams_of_devices", "each device has its own current stream")
def guard_streams_of_devices(context: SuiteContext) -> None:
    """Enter a stream of the second device from the first and come back."""
    need_devices(context, 2)
    torch, module, name = context.torch, context.module, context.backend.name
    before, here = module.current_device(), module.current_stream()
    other = (before + 1) % module.device_count()
    with module.device(other):
        stream = module.Stream()
    with module.stream(stream):
        found = module.current_device()
        require(found == other, f"inside a stream of device {other} the current device is {found}")
        total = torch.arange(100.0, device=f"{name}:{other}").sum()
    stream.synchronize()
    require(total.item() == 4950.0, f"a stream of device {other} computed {total.item()}")
    after = module.current_device(), module.current_stream()
    require(after == (before, here), "leaving the stream of another device did not restore device and stream")


@check("runtime.properties", "device properties are consistent")
def properties(context: SuiteContext) -> None:
    """Compare names, memory figures and counts from the different places that report them."""
    if context.backend.name == "cpu" and not context.backend.device_index_checked:
        raise CheckSkippedError("torch reports no properties of the CPU")
    need_api(context, "get_device_properties", "get_device_name", "current_device")
    module, name = context.module, context.backend.name
    for index in range(module.device_count()):
        reported, named = module.get_device_properties(index), module.get_device_name(index)
        require(named == reported.name, f"device {index} is {named!r} and {reported.name!r}")
        total = int(reported.total_memory)
        require(total > 2**28, f"device {index} reports {total} bytes of memory")
        if hasattr(module, "mem_get_info"):
            free, whole = module.mem_get_info(index)
            require(0 < free <= whole, f"device {index}: {free} of {whole} bytes are free")
            problem = f"device {index} has {total} bytes of memory, but also {whole}"
            require(abs(whole - total) <= 0.15 * total, problem)
    accelerator = getattr(context.torch, "accelerator", None)
    if accelerator is not None and hasattr(accelerator, "current_accelerator"):
        found = accelerator.current_accelerator()
        require(found is not None and found.type == name, f"torch.accelerator is {found} instead of {name}")
        counts = accelerator.device_count(), module.device_count()
        require(
            counts[0] == counts[1], f"torch.accelerator has {counts[0]} devices, torch.{name} {counts[1]}"
        )
