"""Group ``runtime``: streams."""

from __future__ import annotations

import time

from .context import SuiteContext, require
from .registry import SMOKE, check
from .runtime import Load, need_streams


@check("runtime.stream_order", "work on one stream runs in order")
def stream_order(context: SuiteContext) -> None:
    """Queue dependent steps after slow work on a side stream; only one order gives the right result."""
    need_streams(context)
    torch, module = context.torch, context.module
    load, side = Load(context), module.Stream()
    values = torch.zeros(1 << 16, device=context.device)
    side.wait_stream(module.current_stream())
    with module.stream(side):
        slow = load.queue()
        values.add_(slow[0, 0] / load.value)
        for step in range(1, 9):
            values.mul_(2.0).add_(float(step))
    side.synchronize()
    expected = 1.0
    for step in range(1, 9):
        expected = 2 * expected + step
    found = values.cpu()
    require(
        bool((found / expected - 1).abs().max() < 1e-2),
        f"steps on one stream gave {found.min()} to {found.max()} instead of {expected}: they ran out of"
        " order",
    )


@check("runtime.stream_async", "kernel launches are asynchronous")
def stream_async(context: SuiteContext) -> None:
    """Queue slow work: the event after it is pending at first, complete after synchronize(), the result
    right."""
    need_streams(context)
    module = context.module
    load, side = Load(context), module.Stream()
    side.wait_stream(module.current_stream())
    done = module.Event()
    with module.stream(side):
        result = load.queue()
        done.record()
    pending = not done.query()
    busy = not side.query()
    began = time.perf_counter()
    side.synchronize()
    context.metric("waited_ms", (time.perf_counter() - began) * 1000)
    require(done.query() and side.query(), "after synchronize() the stream is still busy")
    load.right(result.sum().item(), "after the stream's synchronize()")
    require(
        pending and busy,
        f"queueing {load.steps} products of about {load.each_ms:.2f} ms blocked until they were done:"
        " nothing runs asynchronously",
    )


@check("runtime.stream_overlap", "streams run independently of each other")
def stream_overlap(context: SuiteContext) -> None:
    """Start short work on one stream after slow work on another.

    A device need not run them at the same time (one kernel may fill it): only wrong results and a hanging
    short stream are failures. An overlap is reported, but not required.
    """
    need_streams(context)
    torch, module = context.torch, context.module
    load, long, short = Load(context), module.Stream(), module.Stream()
    require(long != short, "two new streams are the same stream")
    seen = False
    for number in range(3):
        numbers = torch.arange(64.0, device=context.device)
        module.synchronize()
        long_done, short_done = module.Event(), module.Event()
        with module.stream(long):
            result = load.queue()
            long_done.record()
        with module.stream(short):
            total = (numbers + number).sum()
            short_done.record()
        short_done.synchronize()
        seen = seen or not long_done.query()
        require(short_done.query(), "an event's synchronize() returned before the event")
        with module.stream(short):
            found = total.item()
        require(found == 2016.0 + 64 * number, f"the short stream computed {found}")
        long.synchronize()
        require(long_done.query(), "a stream's synchronize() returned before its event")
        load.right(result.sum().item(), "the long stream")
    context.metric("overlap", seen)
    context.note("overlap observed" if seen else "no overlap observed (not required)")


@check("runtime.stream_wait", "wait_stream and wait_event order work on different streams", suites=SMOKE)
def stream_wait(context: SuiteContext) -> None:
    """Synchronize streams in every available way; a stream that does not wait reads zeros."""
    need_streams(context)
    torch, module = context.torch, context.module
    load = Load(context)
    # The first round loads kernels, for which some backends wait for the whole device.
    for name in ("wait_stream", "wait_stream", "wait_event", "event.wait"):
        producer, consumer = module.Stream(), module.Stream()
        filled = torch.zeros(64, 64, device=context.device)
        module.synchronize()
        ready = module.Event()
        with module.stream(producer):
            filled.copy_(load.queue()[:64, :64])
            ready.record()
        with module.stream(consumer):
            if name == "wait_stream":
                consumer.wait_stream(producer)
            elif name == "wait_event":
                consumer.wait_event(ready)
            else:
                ready.wait(consumer)
            total = filled.sum()
        consumer.synchronize()
        with module.stream(consumer):
            found = total.item() / (64 * 64 * load.value)
        problem = f"{name}: the waiting stream read {found:.3g} of the other stream's result: it did not wait"
        require(abs(found - 1) < 1e-2, problem)


@check("runtime.stream_priority", "streams have the requested priority")
def stream_priority(context: SuiteContext) -> None:
    """Create streams of normal and high priority and compute on both."""
    need_streams(context)
    torch, module = context.torch, context.module
    for priority in (0, -1):
        stream = module.Stream(priority=priority)
        found = getattr(stream, "priority", None)
        require(found == priority, f"a stream of priority {priority} reports priority {found}")
        stream.wait_stream(module.current_stream())
        with module.stream(stream):
            total = torch.arange(1000.0, device=context.device).sum()
        stream.synchronize()
        with module.stream(stream):
            require(total.item() == 499500.0, f"a stream of priority {priority} computed {total.item()}")
