"""The one table of differences between the backends that the checks know."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Backend:
    """What a backend has, beyond what all of them have.

    Attributes:
        name: of ``torch.device`` and of the module ``torch.<name>``.
        streams: work is queued on streams that can run beside each other, with events between them.
        device_index_checked: a device number that does not exist is an error.
        allocator_statistics: ``memory_allocated`` and its like count (xpu: from torch 2.6 on).
        fused_kernel: xpubuild_ops has its fused kernel for this backend.
        tf32_switches: settings below ``torch.backends`` that decide whether float32 convolutions use TF32;
            the first that this torch has is used (2.9 brought new names and warns about the old ones).
        absent_hint: what to look at when no device is visible.
    """

    name: str
    streams: bool
    device_index_checked: bool
    allocator_statistics: bool
    fused_kernel: bool
    tf32_switches: tuple[str, ...]
    absent_hint: str


BACKENDS = {
    backend.name: backend
    for backend in (
        Backend(
            name="xpu",
            streams=True,
            device_index_checked=True,
            allocator_statistics=True,
            fused_kernel=True,
            tf32_switches=("mkldnn.conv.fp32_precision", "mkldnn.allow_tf32"),
            absent_hint="driver, /dev/dri permissions, ZE_AFFINITY_MASK and ONEAPI_DEVICE_SELECTOR decide",
        ),
        Backend(
            name="cuda",
            streams=True,
            device_index_checked=True,
            allocator_statistics=True,
            fused_kernel=False,
            tf32_switches=("cudnn.conv.fp32_precision", "cudnn.allow_tf32"),
            absent_hint="driver and CUDA_VISIBLE_DEVICES decide",
        ),
        Backend(
            name="cpu",
            streams=False,
            device_index_checked=False,
            allocator_statistics=False,
            fused_kernel=True,
            tf32_switches=(),
            absent_hint="",
        ),
    )
}
