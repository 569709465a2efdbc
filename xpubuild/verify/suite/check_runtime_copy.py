"""Group ``runtime``: copies between host and device, and between devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .registry import SMOKE, check
from .runtime import Load, need_devices, need_streams

_NUMBER = 1 << 24


def _pinned(context: SuiteContext, tensor: Any) -> Any:
    """Return a copy in pinned host memory; torch before 2.6 needs the device."""
    if not context.backend.pinned:
        raise CheckSkippedError(f"{context.backend.name} has no pinned host memory")
    major, minor = (int(part) for part in str(context.torch.__version__).split(".")[:2])
    if (major, minor) >= (2, 6) or context.backend.name == "cuda":
        locked = tensor.pin_memory()
        found = locked.is_pinned()
    else:
        locked = tensor.pin_memory(context.backend.name)
        found = locked.is_pinned(context.backend.name)
    require(found, "pin_memory() returned memory that is not pinned")
    require(locked.device.type == "cpu", f"pinned host memory is on {locked.device}")
    require(context.torch.equal(locked, tensor), "pin_memory() changed the values")
    return locked


@check("runtime.copy_pinned", "copies from and to pinned host memory are correct")
def copy_pinned(context: SuiteContext) -> None:
    """Copy 64 MiB to the device and back, blocking and non-blocking, also at odd offsets."""
    torch = context.torch
    source = torch.arange(_NUMBER, dtype=torch.int32)
    locked = _pinned(context, source)
    for offset in (0, 3):
        for waiting in (True, False):
            there = locked[offset:].to(context.device, non_blocking=not waiting)
            back = _pinned(context, torch.zeros_like(source[offset:]))
            back.copy_(there, non_blocking=not waiting)
            context.module.synchronize()
            where = f"from element {offset}, {'blocking' if waiting else 'non-blocking'}"
            require(torch.equal(there.cpu(), source[offset:]), f"the copy to the device is wrong ({where})")
            require(torch.equal(back, source[offset:]), f"the copy to the host is wrong ({where})")


@check("runtime.copy_async", "non-blocking copies are ordered on their stream")
def copy_async(context: SuiteContext) -> None:
    """Copy a result to the host after slow work: the copy returns at once, and is complete after the
    event."""
    need_streams(context)
    torch, module = context.torch, context.module
    load = Load(context)
    target = _pinned(context, torch.zeros(64, 64))
    event = module.Event()
    for _ in range(2):  # kernels are loaded on first use, and some backends wait for the device then
        module.synchronize()
        target.zero_()
        result = load.queue()[:64, :64].contiguous()
        target.copy_(result, non_blocking=True)
        event.record()
        pending = not event.query()
    event.synchronize()
    found = target.double().mean().item() / load.value
    problem = f"the copy holds {found:.3g} of the result: it started before the work in front of it was done"
    require(abs(found - 1) < 1e-2, problem)
    require(pending, "a non-blocking copy was blocking")


@check("runtime.copy_conversion", "copies between dtypes, layouts and devices are correct", suites=SMOKE)
def copy_conversion(context: SuiteContext) -> None:
    """Copy between layouts and dtypes to the device, on it, and back; bits must not change."""
    torch = context.torch
    source = torch.arange(-3000, 3000, dtype=torch.int32).reshape(20, 300)
    there = source.to(context.device)
    views: dict[str, Callable[[Any], Any]] = {
        "transposed": lambda x: x.t(),
        "every third": lambda x: x[::2, ::3],
        "expanded": lambda x: x[:, :1].expand(20, 77),
        "unfolded": lambda x: x.unfold(1, 8, 5),
        "flipped": lambda x: x.flip(0, 1),
        "with an offset": lambda x: x.reshape(-1)[1:-1],
        "empty": lambda x: x[:, :0],
        "one element": lambda x: x[0, 0],
    }
    dtypes = (torch.int32, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int8,
              torch.uint8, torch.bool, torch.complex64)  # fmt: skip
    for name, view in views.items():
        for dtype in dtypes:
            expected = view(source).to(dtype)
            for what, found in (
                ("on the device", view(there).to(dtype)),
                ("to the device", view(source).to(context.device, dtype)),
                ("from the device", view(there).to("cpu", dtype)),
                ("into a part", torch.zeros_like(expected, device=context.device).copy_(view(there))),
            ):
                problem = f"{name}, int32 to {dtype}, {what}: wrong elements"
                require(torch.equal(found.cpu(), expected), problem)
    whole = torch.zeros(20, 600, dtype=torch.int32, device=context.device)
    whole[:, 1::2] = there
    expected = torch.zeros(20, 600, dtype=torch.int32)
    expected[:, 1::2] = source
    require(torch.equal(whole.cpu(), expected), "writing every other column changed other elements")


@check("runtime.copy_peer", "copies between devices are correct")
def copy_peer(context: SuiteContext) -> None:
    """Copy 64 MiB and a strided part between each pair of devices (tiles are devices), also after slow
    work."""
    number = need_devices(context, 2)
    torch, module, name = context.torch, context.module, context.backend.name
    source = torch.arange(_NUMBER, dtype=torch.int32)
    for left in range(number):
        there = source.to(f"{name}:{left}")
        for right in range(number):
            if left == right:
                continue
            pair = f"from device {left} to {right}"
            copied = there.to(f"{name}:{right}")
            require(str(copied.device) == f"{name}:{right}", f"{pair}: the copy is on {copied.device}")
            require(torch.equal(copied.cpu(), source), f"{pair}: a copy is wrong")
            part = torch.zeros(1000, 4, dtype=torch.int32, device=f"{name}:{right}")
            part[:, 1:3].copy_(there[:4000].reshape(1000, 4)[:, 2:])
            expected = torch.zeros(1000, 4, dtype=torch.int32)
            expected[:, 1:3] = source[:4000].reshape(1000, 4)[:, 2:]
            require(torch.equal(part.cpu(), expected), f"{pair}: a copy of a part is wrong")
    context.metric("pairs", number * (number - 1))
    load = Load(context, 60.0)
    other = (module.current_device() + 1) % number
    moved = load.queue().to(f"{name}:{other}", non_blocking=True)
    load.right(moved.sum().item(), "a copy after slow work")
