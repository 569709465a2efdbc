"""Whether work ran on the device under test."""

from __future__ import annotations

import contextlib
import functools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from .context import SuiteContext, require

# Transfers and fills in the profilers of CUDA and Level Zero (D: device, H or M: host, S: shared).
_NOT_COMPUTING = re.compile(r"mem(cpy|set)|memory(copy|fill)", re.IGNORECASE)
_TO_HOST = re.compile(r"DtoH|D2[HMS]\b|Device -> (Pageable|Pinned)")


def require_placed(context: SuiteContext, what: str, tensors: Iterable[Any]) -> None:
    """Fail unless every tensor is on the device under test."""
    elsewhere = sorted(
        {str(tensor.device) for tensor in tensors if tensor.device.type != context.backend.name}
    )
    require(not elsewhere, f"{what} on {', '.join(elsewhere)} instead of {context.backend.name}")


@dataclass
class Record:
    """What ran on the device: ``names`` of kernels, and ``fallbacks`` that torch warned about.

    ``names`` is None if this torch has no profiler for the device.
    """

    names: list[str] | None = None
    fallbacks: list[str] = field(default_factory=list)

    @property
    def kernels(self) -> list[str]:
        """Return the names of kernels on the device, without transfers."""
        return [name for name in self.names or () if not _NOT_COMPUTING.search(name)]

    @property
    def to_host(self) -> list[str]:
        """Return the names of transfers from the device to the host."""
        return [name for name in self.names or () if _TO_HOST.search(name)]


@contextlib.contextmanager
def recording(context: SuiteContext) -> Iterator[Record]:
    """Yield the record of what runs inside; it is complete at the end. Other warnings are passed on."""
    record, profile = Record(), None
    with contextlib.ExitStack() as stack:
        caught = stack.enter_context(warnings.catch_warnings(record=True))
        warnings.simplefilter("always")
        if _sees(context.torch, str(context.device), context.backend.name, context.backend.activity):
            profile = stack.enter_context(_profile(context))
        try:
            yield record
        finally:
            context.module.synchronize()
    sign = context.backend.fallback_warning
    for message in caught or ():
        text = str(message.message)
        if sign and sign in text:
            record.fallbacks.append(text.splitlines()[0])
        else:
            warnings.warn_explicit(message.message, message.category, message.filename, message.lineno)
    if profile is not None:
        record.names = _device_names(context, profile)


def _profile(context: SuiteContext) -> Any:
    profiler = context.torch.profiler
    return profiler.profile(activities=[getattr(profiler.ProfilerActivity, context.backend.activity)])


def _device_names(context: SuiteContext, profile: Any) -> list[str]:
    wanted = context.backend.name.upper()
    return [event.name for event in profile.events() if event.device_type.name == wanted]


@functools.lru_cache(maxsize=1)
def _sees(torch: Any, device: str, name: str, activity: str) -> bool:
    """Return whether the profiler records a kernel that ran: it may lack a library or a permission."""
    wanted = getattr(torch.profiler.ProfilerActivity, activity, None)
    if wanted is None or wanted not in torch.profiler.supported_activities():
        return False
    values = torch.ones(64, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first profile of a process warns about older events
        try:
            with torch.profiler.profile(activities=[wanted]) as profile:
                (values + 1).sum().item()
        except RuntimeError:
            # PTI cannot be enabled (PTI_ERROR_NOT_IMPLEMENTED): the group profiler reports that.
            return False
    return any(event.device_type.name == name.upper() for event in profile.events())


def recorded(context: SuiteContext, function: Callable[[], Any]) -> tuple[Any, Record]:
    """Return what the function returns and the record of what it ran on the device."""
    with recording(context) as record:
        result = function()
    return result, record


@contextlib.contextmanager
def on_device(context: SuiteContext, expected_bytes: int) -> Iterator[None]:
    """Fail the check unless the work inside ran on the device.

    It has to allocate at least ``expected_bytes`` on the device, the profiler has to record kernels there,
    and torch must not warn that an operator ran on the CPU: after a fallback to the CPU results are
    right, but nothing is allocated and the device is idle. What a backend or release cannot report is not
    tested: the CPU has none of these, xpu no statistics before torch 2.6, a torch built without Kineto no
    profiler. The metric ``device_evidence`` lists what was tested.
    """
    module, evidence = context.module, []
    measured = context.backend.allocator_statistics and hasattr(module, "memory_allocated")
    with contextlib.ExitStack() as stack:
        record = stack.enter_context(recording(context)) if context.backend.streams else None
        if measured:
            module.synchronize()
            module.reset_peak_memory_stats()
            before = module.memory_allocated()
        yield
        if measured:
            module.synchronize()
            taken = module.max_memory_allocated() - before
    if measured:
        evidence.append("allocator")
        context.metric("device_memory_bytes", taken)
        require(
            taken >= expected_bytes,
            f"the device's allocator provided {taken} bytes for work that needs at least {expected_bytes}: "
            "it did not run there",
        )
    if record is None:
        return
    require(not record.fallbacks, "; ".join(record.fallbacks[:3]))
    if record.names is not None:
        evidence.append("profiler")
        context.metric("device_kernels", len(record.kernels))
        require(record.kernels, "the profiler recorded no kernel on the device: the work did not run there")
    context.metric("device_evidence", evidence)
