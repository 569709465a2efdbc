"""Group ``runtime``: contexts restore what they change; device properties are consistent."""

from __future__ import annotations

import functools

from .context import CheckFailedError, CheckSkippedError, SuiteContext, require
from .registry import check
from .runtime import leave_by_exception, need_api, need_devices


@check("runtime.guard_default", "the default device is restored, also after an exception")
def guard_default(context: SuiteContext) -> None:
    """Create tensors inside ``torch.device`` contexts; leave them normally and by an exception."""
    torch = context.torch
    before = torch.empty(1).device

    def inside() -> None:
        made = torch.ones(2).device
        problem = f"inside torch.device({context.backend.name!r}) the default device is {made}"
        require(made.type == context.backend.name, problem)
        with torch.device("meta"):
            require(torch.ones(2).device.type == "meta", "an inner torch.device context has no effect")
        made = torch.ones(2).device
        require(made.type == context.backend.name, f"after an inner context the default device is {made}")

    with torch.device(context.device):
        inside()
    problem = f"after the context the default device is {torch.empty(1).device}"
    require(torch.empty(1).device == before, problem)
    leave_by_exception(torch.device(context.device), inside)
    after = torch.empty(1).device
    require(after == before, f"after an exception the default device is {after} instead of {before}")


@check("runtime.guard_autocast", "autocast is restored, also after an exception")
def guard_autocast(context: SuiteContext) -> None:
    """Multiply inside and outside autocast to bfloat16."""
    torch = context.torch
    matrix = torch.ones(16, 16, device=context.device)

    def inside() -> None:
        found = (matrix @ matrix).dtype
        require(found == torch.bfloat16, f"under autocast to bfloat16 a product is {found}")
        with torch.autocast(context.backend.name, enabled=False):
            found = (matrix @ matrix).dtype
            require(found == torch.float32, f"with autocast disabled a product is {found}")
        found = (matrix @ matrix).dtype
        require(found == torch.bfloat16, f"after an inner context without autocast a product is {found}")

    leave_by_exception(torch.autocast(context.backend.name, dtype=torch.bfloat16), inside)
    found = (matrix @ matrix).dtype
    require(found == torch.float32, f"after an exception autocast is still enabled: a product is {found}")


@check("runtime.guard_device", "the current device is restored, also after an exception")
def guard_device(context: SuiteContext) -> None:
    """Enter every device in turn, nested and with an exception; tensors are created on the current one."""
    if not context.backend.device_index_checked:
        raise CheckSkippedError(f"{context.backend.name} has only one device")
    need_api(context, "device", "current_device", "set_device")
    torch, module, name = context.torch, context.module, context.backend.name
    before = module.current_device()

    def inside(index: int) -> None:
        found = module.current_device()
        require(found == index, f"inside {name}.device({index}) the current device is {found}")
        made = torch.ones(4, device=name)
        require(made.device.index == index, f"inside {name}.device({index}) a tensor is on {made.device}")
        with module.device(before):
            require(module.current_device() == before, "an inner device context has no effect")
        found = module.current_device()
        require(found == index, f"after an inner context the current device is {found} instead of {index}")

    for index in range(module.device_count()):
        with module.device(index):
            inside(index)
        found = module.current_device()
        require(found == before, f"after {name}.device({index}) the current device is {found}")
        leave_by_exception(module.device(index), functools.partial(inside, index))
        found = module.current_device()
        problem = f"after an exception in {name}.device({index}) the current device is {found}"
        require(found == before, problem)
    try:
        module.set_device(module.device_count())
    except (RuntimeError, AssertionError, ValueError):
        pass
    else:
        raise CheckFailedError(
            f"device {module.device_count()} of {module.device_count()} can be made current"
        )
    require(module.current_device() == before, "making a missing device current changed the current device")


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
    problem = "leaving the stream of another device did not restore the device"
    require(module.current_device() == before, problem)
    problem = "leaving the stream of another device did not restore the stream"
    require(module.current_stream() == here, problem)


@check("runtime.properties", "device properties are consistent")
def properties(context: SuiteContext) -> None:
    """Compare names, memory figures and counts from the different places that report them."""
    if context.backend.name == "cpu" and not context.backend.device_index_checked:
        raise CheckSkippedError("torch reports no properties of the CPU")
    need_api(context, "get_device_properties", "get_device_name", "current_device")
    torch, module = context.torch, context.module
    for index in range(module.device_count()):
        reported = module.get_device_properties(index)
        named = module.get_device_name(index)
        require(named == reported.name, f"device {index} is {named!r} and {reported.name!r}")
        total = int(reported.total_memory)
        require(total > 2**28, f"device {index} reports {total} bytes of memory")
        if hasattr(module, "mem_get_info"):
            free, whole = module.mem_get_info(index)
            require(0 < free <= whole, f"device {index}: {free} of {whole} bytes are free")
            problem = f"device {index} has {total} bytes of memory, but also {whole}"
            require(abs(whole - total) <= 0.15 * total, problem)
    accelerator = getattr(torch, "accelerator", None)
    if accelerator is not None and hasattr(accelerator, "current_accelerator"):
        found = accelerator.current_accelerator()
        problem = f"torch.accelerator is {found} instead of {context.backend.name}"
        require(found is not None and found.type == context.backend.name, problem)
        require(
            accelerator.device_count() == module.device_count(),
            f"torch.accelerator has {accelerator.device_count()} devices, "
            f"torch.{context.backend.name} {module.device_count()}",
        )
