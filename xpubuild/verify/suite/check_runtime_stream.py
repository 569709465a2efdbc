"""Group ``runtime``: streams."""

from __future__ import annotations

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
    problem = f"steps on one stream gave {found.min()} to {found.max()} instead of {expected}"
    require(bool((found / expected - 1).abs().max() < 1e-2), f"{problem}: they ran out of order")


@check("runtime.stream_async", "kernel launches are asynchronous, and streams do not wait for each other")
def stream_async(context: SuiteContext) -> None:
    """Queue slow work on two streams: the event after it is pending at first and complete after a wait, the
    result right; short work on another stream can be waited for alone."""
    need_streams(context)
    module = context.module
    load, side, short, event = Load(context), module.Stream(), module.Stream(), module.Event()
    require(side != short, "two new streams are the same stream")
    require(event.query(), "an event that was never recorded is not complete")
    side.wait_stream(module.current_stream())
    for stream, waited in ((module.current_stream(), event), (side, side)):
        with module.stream(stream):
            result = load.queue()
            event.record()
        pending, busy = not event.query(), not stream.query()
        with module.stream(short):
            total = context.torch.arange(64.0, device=context.device).sum()
        short.synchronize()
        # A device need not run both at once: one kernel may fill it.
        context.metric("overlap", not event.query())
        with module.stream(short):
            require(total.item() == 2016.0, f"the short stream computed {total.item()}")
        waited.synchronize()
        require(event.query() and waited.query(), "after synchronize() the work before it is not complete")
        load.right(result.sum().item(), "after synchronize()")
        problem = f"queueing {load.steps} products of {load.each_ms:.2f} ms each blocked until they were done"
        require(pending and busy, f"{problem}: nothing runs asynchronously")


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
