"""Whether work ran where it was meant to."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any

from .context import Context, require

# What the profilers of CUDA and of Level Zero call transfers and fills (D: device, H or M: host, S: shared).
_NOT_COMPUTING = re.compile(r"mem(cpy|set)|memory(copy|fill)", re.IGNORECASE)
_TO_HOST = re.compile(r"DtoH|D2[HMS]\b|Device -> (Pageable|Pinned)")


def require_placed(context: Context, what: str, tensors: Iterable[Any]) -> None:
    """Fail unless every tensor is on the device under test."""
    elsewhere = sorted(
        {str(tensor.device) for tensor in tensors if tensor.device.type != context.backend.name}
    )
    require(not elsewhere, f"{what} on {', '.join(elsewhere)} instead of {context.backend.name}")


class Recorder:
    """Records what ran on the device meanwhile: ``names``, and ``fallbacks`` that torch itself warned of.

    ``names`` stays None where this torch has no profiler for the device.
    """

    def __init__(self, context: Context) -> None:
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
        """Return the names of what computed on the device: no transfers."""
        return [name for name in self.names or () if not _NOT_COMPUTING.search(name)]

    @property
    def to_host(self) -> list[str]:
        """Return the names of transfers from the device to the host."""
        return [name for name in self.names or () if _TO_HOST.search(name)]


def _profile(context: Context) -> Any:
    profiler = context.torch.profiler
    return profiler.profile(activities=[getattr(profiler.ProfilerActivity, context.backend.activity)])


def _device_names(context: Context, profile: Any) -> list[str]:
    wanted = context.backend.name.upper()
    return [event.name for event in profile.events() if event.device_type.name == wanted]


@functools.lru_cache(maxsize=1)
def _works(torch: Any, activity: str) -> bool:
    wanted = getattr(torch.profiler.ProfilerActivity, activity, None)
    return wanted is not None and wanted in torch.profiler.supported_activities()


@functools.lru_cache(maxsize=1)
def _sees(torch: Any, device: str, name: str, activity: str) -> bool:
    """Return whether the profiler sees a kernel that did run: it may lack a library, or a permission."""
    values = torch.ones(64, device=device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the first profile of a process says what it does with older events
        with torch.profiler.profile(
            activities=[getattr(torch.profiler.ProfilerActivity, activity)]
        ) as profile:
            (values + 1).sum().item()
    return any(event.device_type.name == name.upper() for event in profile.events())


def _profiler_works(context: Context) -> bool:
    torch, backend = context.torch, context.backend
    return _works(torch, backend.activity) and _sees(
        torch, str(context.device), backend.name, backend.activity
    )


def recorded(context: Context, function: Callable[[], Any]) -> tuple[Any, Recorder]:
    """Return what the function returns and the record of what it ran on the device."""
    with Recorder(context) as recorder:
        result = function()
    return result, recorder


class DeviceMemory:
    """Fails the check unless the work inside ran on the device.

    It has to take at least ``expected_bytes`` from the device's allocator, the profiler has to see kernels
    there, and torch must not say that an operator ran on the CPU: a fall-back to the CPU keeps results
    right, the allocator still, and the device idle. What a backend or release cannot tell is left out: the
    CPU has none of them, xpu no statistics before torch 2.6, a torch built without Kineto no profiler. The
    metric ``device_evidence`` says what was seen.
    """

    def __init__(self, context: Context, expected_bytes: int) -> None:
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
            f"the device's allocator gave out {taken} bytes for work that needs at least {self._expected}: "
            "it did not run there",
        )

    def _require_work(self, recorder: Recorder) -> None:
        evidence = ["allocator"] if self._measured else []
        require(not recorder.fallbacks, "; ".join(recorder.fallbacks[:3]))
        if recorder.names is not None:
            evidence.append("profiler")
            self._context.metric("device_kernels", len(recorder.kernels))
            require(recorder.kernels, "the profiler saw no kernel on the device: the work did not run there")
        self._context.metric("device_evidence", evidence)
