"""The one table of differences between the backends that the checks know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


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
            the first that this torch has is used (2.9 has new names and warns about the old ones).
        absent_hint: what to look at when no device is visible.
        tf32_gemm_switches: the same for matrix products.
        dispatch_key: under which the backend's kernels are registered.
        activity: of ``torch.profiler`` that records the device's kernels.
        fused_short_types: the fused convolution with sum and relu takes bfloat16 and float16 too (on the CPU
            it fails with an internal assertion on add_relu where oneDNN does not take the layout).
        pinned: host memory can be locked for the device.
        grows_by_release: parts of the backend's module came with torch releases after 2.4, so that what is
            missing is no fault of this build.
        allocation_limit: the driver may refuse a single allocation of 4 GiB and more.
        blocking_variables: environment variables that make each launch wait for its end.
        environment: variables that have to be set before torch is imported.
        fallback_warning: what torch says, with ``environment``, when an operator runs on the CPU instead.
        collective: backend of ``torch.distributed`` that moves its tensors.
        triton: name of the triton backend that makes its kernels; empty where inductor uses none.
        runtime_headers: what inductor and triton compile against while a program runs, beyond Python's own.
    """

    name: str
    streams: bool
    device_index_checked: bool
    allocator_statistics: bool
    fused_kernel: bool
    tf32_switches: tuple[str, ...]
    absent_hint: str
    tf32_gemm_switches: tuple[str, ...] = ()
    dispatch_key: str = "CPU"
    activity: str = "CPU"
    fused_short_types: bool = True
    pinned: bool = False
    grows_by_release: bool = False
    allocation_limit: bool = False
    blocking_variables: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    fallback_warning: str = ""
    collective: str = "gloo"
    triton: str = ""
    runtime_headers: tuple[str, ...] = ()


_XPU = Backend(
    "xpu", streams=True, device_index_checked=True, allocator_statistics=True, fused_kernel=True,
    tf32_switches=("mkldnn.conv.fp32_precision", "mkldnn.allow_tf32"),
    tf32_gemm_switches=("mkldnn.matmul.fp32_precision", "mkldnn.allow_tf32"),
    absent_hint="check the driver, /dev/dri permissions, ZE_AFFINITY_MASK and ONEAPI_DEVICE_SELECTOR",
    dispatch_key="XPU", activity="XPU", pinned=True, grows_by_release=True, allocation_limit=True,
    blocking_variables=("UR_L0_SERIALIZE", "ZE_SERIALIZE"),
    # XPUFallback.template of torch-xpu-ops: otherwise it warns once and does not name the operator.
    environment={"PYTORCH_DEBUG_XPU_FALLBACK": "1"},
    fallback_warning="on the XPU backend is falling back to run on the CPU", collective="xccl",
    triton="intel", runtime_headers=("level_zero/ze_api.h", "sycl/sycl.hpp", "CL/cl.h"),
)  # fmt: skip
_CUDA = Backend(
    "cuda", streams=True, device_index_checked=True, allocator_statistics=True, fused_kernel=False,
    tf32_switches=("cudnn.conv.fp32_precision", "cudnn.allow_tf32"),
    tf32_gemm_switches=("cuda.matmul.fp32_precision", "cuda.matmul.allow_tf32"),
    absent_hint="check the driver and CUDA_VISIBLE_DEVICES", dispatch_key="CUDA", activity="CUDA",
    pinned=True, blocking_variables=("CUDA_LAUNCH_BLOCKING",), collective="nccl", triton="nvidia",
)  # fmt: skip
_CPU = Backend(
    "cpu", streams=False, device_index_checked=False, allocator_statistics=False, fused_kernel=True,
    tf32_switches=(), absent_hint="", tf32_gemm_switches=("mkldnn.matmul.fp32_precision",),
    fused_short_types=False,
)  # fmt: skip
BACKENDS = {backend.name: backend for backend in (_XPU, _CUDA, _CPU)}
