"""Whether work ran on the device under test."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
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


class Recorder:
    """Records what ran on the device: ``names`` of kernels, and ``fallbacks`` that torch warned about.

    ``names`` is None if this torch has no profiler for the device.
    """

    def __init__(self, context: SuiteContext) -> None:
        self._context = context
        self.names: list[str] | None = None
        self.fallbacks: list[str] = []

    def __enter__(self) -> Recorder:
        self._profile = _profile(self._context) if _profiler_works(self._context) else None
        self._warnings = warnings.catch_warnings(record=True)
        self._caught = self._warnings.__enter__()
        warnings.simplefilter("always")
        if self._profile is not None:
            self._profile.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._context.module.synchronize()
        if self._profile is not None:
            self._profile.__exit__(kind, error, trace)
        self._warnings.__exit__(kind, error, trace)
        sign = self._context.backend.fallback_warning
        for message in self._caught or ():
            text = str(message.message)
            if sign and sign in text:
                self.fallbacks.append(text.splitlines()[0])
            else:
                warnings.warn_explicit(message.message, message.category, message.filename, message.lineno)
        if self._profile is not None and kind is None:
            self.names = _device_names(self._context, self._profile)

    @property
    def kernels(self) -> list[str]:
        """Return the names of kernels on the device, without transfers."""
        return [name for name in self.names or () if not _NOT_COMPUTING.search(name)]

    @property
    def to_host(self) -> list[str]:
        """Return the names of transfers from the device to the host."""
        return [name for name in self.names or () if _TO_HOST.search(name)]


def _profile(context: SuiteContext) -> Any:
    profiler = context.torch.profiler
    return profiler.profile(activities=[getattr(profiler.ProfilerActivity, context.backend.activity)])


def _device_names(context: SuiteContext, profile: Any) -> list[str]:
    wanted = context.backend.name.upper()
    return [event.name for event in profile.events() if event.device_type.name == wanted]


@functools.lru_cache(maxsize=1)
def _works(torch: Any, activity: str) -> bool:
    wanted = getattr(torch.profiler.ProfilerActivity, activity, None)
    return wanted is not None and wanted in torch.profiler.supported_activities()


@functools.lru_cache(maxsize=1)
def _sees(torch: Any, device: str, name: str, activity: str) -> bool:
    """Return whether the profiler records a kernel that ran: it may lack a library or a permission."""
    values = torch.ones(64, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first profile of a process warns about older events
        with torch.profiler.profile(
            activities=[getattr(torch.profiler.ProfilerActivity, activity)]
        ) as profile:
            (values + 1).sum().item()
    return any(event.device_type.name == name.upper() for event in profile.events())


def _profiler_works(context: SuiteContext) -> bool:
    torch, backend = context.torch, context.backend
    return _works(torch, backend.activity) and _sees(
        torch, str(context.device), backend.name, backend.activity
    )


def recorded(context: SuiteContext, function: Callable[[], Any]) -> tuple[Any, Recorder]:
    """Return what the function returns and the record of what it ran on the device."""
    with Recorder(context) as recorder:
        result = function()
    return result, recorder


class DeviceMemory:
    """Fails the check unless the work inside ran on the device.

    It has to allocate at least ``expected_bytes`` on the device, the profiler has to record kernels there,
    and torch must not warn that an operator ran on the CPU: after a fallback to the CPU results are
    right, but nothing is allocated and the device is idle. What a backend or release cannot report is not
    tested: the CPU has none of these, xpu no statistics before torch 2.6, a torch built without Kineto no
    profiler. The metric ``device_evidence`` lists what was tested.
    """

    def __init__(self, context: SuiteContext, expected_bytes: int) -> None:
        self._context = context
        self._expected = expected_bytes
        self._measured = context.backend.allocator_statistics and hasattr(context.module, "memory_allocated")

    def __enter__(self) -> DeviceMemory:
        self._recorder = Recorder(self._context) if self._context.backend.streams else None
        if self._recorder is not None:
            self._recorder.__enter__()
        if self._measured:
            module = self._context.module
            module.synchronize()
            module.reset_peak_memory_stats()
            self._before = module.memory_allocated()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        taken = 0
        if self._measured and kind is None:
            module = self._context.module
            module.synchronize()
            taken = module.max_memory_allocated() - self._before
        if self._recorder is not None:
            self._recorder.__exit__(kind, error, trace)
        if kind is not None:
            return
        if self._measured:
            self._require_memory(taken)
        if self._recorder is not None:
            self._require_work(self._recorder)

    def _require_memory(self, taken: int) -> None:
        self._context.metric("device_memory_bytes", taken)
        require(
            taken >= self._expected,
            f"the device's allocator provided {taken} bytes for work that needs at least {self._expected}: "
            "it did not run there",
        )

    def _require_work(self, recorder: Recorder) -> None:
        evidence = ["allocator"] if self._measured else []
        require(not recorder.fallbacks, "; ".join(recorder.fallbacks[:3]))
        if recorder.names is not None:
            evidence.append("profiler")
            self._context.metric("device_kernels", len(recorder.kernels))
            require(
                recorder.kernels, "the profiler recorded no kernel on the device: the work did not run there"
            )
        self._context.metric("device_evidence", evidence)
