"""Group ``speed``: performance. A slow device is a warning with figures, never a failure."""

from __future__ import annotations

import functools
from typing import Any

from .context import CheckSkippedError, SuiteContext, require
from .hardware import has_float64
from .peaks import CAUSES, FAR_BELOW, FRACTION, FRACTIONS, find
from .registry import SPEED, check
from .stopwatch import seconds, wall_seconds

_NEEDS = ("device.availability", "device.properties")


def _against(context: SuiteContext, name: str, value: float, peak: float) -> None:
    """Record a speed and its peak; warn if it is below the given fraction, with causes if far below."""
    context.metric(f"{name}_of_peak", round(value / peak, 4))
    if value < FRACTIONS.get(name, FRACTION) * peak:
        stated = f"{name} is {value:.4g}, {value / peak:.0%} of the device's peak of {peak:.4g}"
        context.warn(f"{stated}: {CAUSES}" if value < FAR_BELOW * peak else stated)


def _peak(context: SuiteContext) -> Any:
    """Return (peak, tiles) of the device, None if its peaks are not in the table."""
    if context.backend.name == "cpu":
        return None
    properties = context.module.get_device_properties()
    engines = getattr(properties, "gpu_eu_count", 0) or getattr(properties, "max_compute_units", 0)
    return find(str(properties.name), int(engines))


def _share(context: SuiteContext, name: str) -> str:
    """Return the text on how much of the device's own peak was reached."""
    found = context.metrics.get(f"{name}_of_peak")
    return ", no peak known for this device" if found is None else f", {found:.0%} of the device's peak"


def _gemm_seconds(context: SuiteContext, kind: str, side: int) -> float:
    """Return the time of a product of random numbers: zeros would give higher clocks."""
    torch, size = context.torch, (side, side)
    torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    if kind == "int8":
        left, right = (torch.randint(-9, 9, size, device=context.device).to(torch.int8) for _ in range(2))
        # Columns in a row: the layout that int8 kernels are made for.
        return seconds(context, lambda: torch._int_mm(left, right.t()))
    dtype = getattr(torch, "float32" if kind == "tf32" else kind)
    left, right = (torch.randn(size, device=context.device).to(dtype) for _ in range(2))
    out = torch.empty_like(left)
    return seconds(context, lambda: torch.mm(left, right, out=out))


@check("speed.gemm", "speed of matrix products by dtype", needs=_NEEDS, suites=SPEED, deadline_s=180)
def gemm(context: SuiteContext) -> None:
    """Multiply large square matrices of random numbers in each dtype of the device."""
    peak = _peak(context)
    sides = {"float32": 512, "bfloat16": 256}
    if context.backend.name != "cpu":  # large enough to fill the device, short to run
        sides = {"float32": 4096, "tf32": 8192, "bfloat16": 8192, "float16": 8192}
        sides |= {"float64": 4096} if has_float64(context) else {}
        sides |= {"int8": 8192} if hasattr(context.torch, "_int_mm") else {}
    for kind, side in sides.items():
        try:
            taken = _gemm_seconds(context, kind, side)
        except (NotImplementedError, RuntimeError) as error:
            require(kind == "int8", f"{kind}: {error}")
            context.metric("int8", "no kernel")
            continue
        require(taken > 0, f"a product of {side} x {side} in {kind} took no time")
        speed = 2 * side**3 / taken / 1e12
        context.metric(f"{kind}_tflops", round(speed, 4))
        if peak and kind in peak[0].tflops:
            _against(context, f"{kind}_tflops", speed, peak[0].tflops[kind] * peak[1])
    if peak:
        context.metric("peak_source", peak[0].source)
        context.note(f"peaks of {peak[0].name}, {peak[1]} tile{'s' if peak[1] > 1 else ''}")
    reached = context.metrics["bfloat16_tflops"]
    context.note(f"bfloat16 {reached:.4g} TFLOP/s{_share(context, 'bfloat16_tflops')}")


@check("speed.memory", "speed of the device's memory", needs=_NEEDS, suites=SPEED)
def memory(context: SuiteContext) -> None:
    """Copy and add arrays much larger than the caches; bytes read and written count."""
    torch, peak = context.torch, _peak(context)
    elements = (1 << 28) if context.backend.streams else (1 << 23)
    left, right = (torch.ones(elements, device=context.device) for _ in range(2))
    out = torch.empty_like(left)
    moved = elements * left.element_size()
    for name, count, call in (
        ("copy_gb_s", 2, lambda: out.copy_(left)),
        ("add_gb_s", 3, lambda: torch.add(left, right, out=out)),
    ):
        taken = seconds(context, call)
        require(taken > 0, f"{name}: {moved} bytes took no time")
        speed = count * moved / taken / 1e9
        context.metric(name, round(speed, 2))
        if peak:
            _against(context, name, speed, peak[0].gb_s * peak[1])
    context.note(f"copy {context.metrics['copy_gb_s']:.4g} GB/s{_share(context, 'copy_gb_s')}")


@check("speed.launch", "time to launch a kernel", needs=_NEEDS, suites=SPEED)
def launch(context: SuiteContext) -> None:
    """Time a thousand small operators in a row, and one with synchronization."""
    torch = context.torch
    value = torch.ones(16, device=context.device)

    def waited() -> None:
        value.add_(1)
        context.module.synchronize()

    for name, call, calls in (
        ("launch_us", lambda: value.add_(1), 1000),
        ("launch_and_wait_us", waited, 100),
    ):
        taken = wall_seconds(context, call, calls) * 1e6
        require(taken > 0, f"{name} is {taken}")
        context.metric(name, round(taken, 3))
    context.note(f"{context.metrics['launch_us']:.3g} us")


@check("speed.copies", "speed of copies between host and device", needs=_NEEDS, suites=SPEED)
def copies(context: SuiteContext) -> None:
    """Copy between the device and host memory, pageable and (if possible) pinned."""
    if context.backend.name == "cpu":
        raise CheckSkippedError("the CPU uses the host's memory")
    torch = context.torch
    there = torch.ones(1 << 26, device=context.device)
    moved = there.numel() * there.element_size()
    for name, locked in (("pageable", False), ("locked", True)):
        if locked and not context.backend.pinned:
            continue
        here = torch.ones(1 << 26, pin_memory=locked)
        for way, target, source in (("to_device", there, here), ("to_host", here, there)):
            taken = seconds(context, functools.partial(target.copy_, source, non_blocking=locked))
            require(taken > 0, f"{moved} bytes {way} took no time")
            context.metric(f"{way}_{name}_gb_s", round(moved / taken / 1e9, 3))
    context.note(f"to the device {context.metrics.get('to_device_locked_gb_s', 0):.3g} GB/s")


@check("speed.resnet50", "resnet50 inference, images per second", needs=_NEEDS, suites=SPEED, deadline_s=240)
def resnet50(context: SuiteContext) -> None:
    """Time a batch in float32 and, with autocast, in float16 and bfloat16; channels last, as in
    PyTorch's guide."""
    from .workload import build

    torch = context.torch
    number, side = (128, 224) if context.backend.streams else (2, 112)
    model = build().to(context.device).to(memory_format=torch.channels_last)
    data = torch.randn(number, 3, side, side, device=context.device).to(memory_format=torch.channels_last)
    types = [None, torch.bfloat16]
    if context.backend.streams:
        types.append(torch.float16)
    context.metric("batch", number)
    context.metric("side", side)
    for dtype in types:
        with (
            torch.inference_mode(),
            torch.autocast(context.backend.name, dtype=dtype, enabled=dtype is not None),
        ):
            taken = seconds(context, lambda: model(data))
        name = "float32" if dtype is None else str(dtype).split(".")[-1]
        require(taken > 0, f"a batch in {name} took no time")
        context.metric(f"{name}_images_per_s", round(number / taken, 2))
    context.note(f"float32 {context.metrics['float32_images_per_s']:.4g} images/s")
