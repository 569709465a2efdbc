"""The largest single allocation of a GPU."""

from __future__ import annotations

from typing import Any

from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok
from xpubuild.doctor.probes.level_zero import unmasked

_GIB = 1 << 30
#: Where buffers of the Xe-HPG generation end: 32 bits of offset in a binding table.
_WINDOW = 4 * _GIB
#: Unified Runtime's switch, off by default (oneapi-src/unified-runtime PR 1245).
RELAXED = "UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS"
#: A name that it was taken for (intel/intel-extension-for-pytorch issue 863); nothing reads it.
_MISTAKEN = "UR_L0_USE_RELAXED_ALLOCATION_LIMITS"


@check(
    "gpu.single_allocation",
    severity="warn",
    profiles=RUN,
    needs=("level_zero.enumerate",),
    live=True,
    families=("R-hardware-limits",),
    deadline_s=20,
)
def gpu_single_allocation(look: Look) -> Outcome:
    """The GPU supports allocations larger than 4 GiB.

    Compares the memory of each GPU with the largest single allocation that Level Zero reports for it
    (`maxMemAllocSize`). Arc A-series and other GPUs of that generation allow at most 4 GiB per
    allocation, however much memory is free, and torch reports `XPU out of memory. Tried to allocate
    4.00 GiB` on an empty card. Data Center GPU Max and Arc B-series have no such limit.

    With `UR_L0_ENABLE_RELAXED_ALLOCATION_LIMITS=1` the SYCL runtime requests larger allocations from
    the driver, and compiles kernels so that they can address them, which makes some kernels slower.
    torch's ahead-of-time compiled kernels must have been built for it: torch-xpu-ops does so since its
    pull request 1406. Otherwise split the tensors.
    """
    limited = [device for device in unmasked(look).gpus if _limited(device)]
    evidence = {
        str(device.get("pci_address")): {
            "memory_bytes": device["memory_bytes"],
            "largest_bytes": device["max_allocation_bytes"],
        }
        for device in limited
    }
    if not limited:
        return ok("every GPU supports allocations larger than 4 GiB, or has less memory")
    told = "; ".join(
        f"{device['name']}: {device['max_allocation_bytes'] / _GIB:.1f} of"
        f" {device['memory_bytes'] / _GIB:.0f} GiB in one allocation"
        for device in limited
    )
    if look.environ.get(RELAXED, "0") not in ("", "0"):
        return ok(f"{told}, but {RELAXED} removes the limit", gpus=evidence)
    wrong = f" ({_MISTAKEN} is set, but has no effect)" if _MISTAKEN in look.environ else ""
    fix = Fix(
        "use smaller tensors, or let the runtime exceed the limit at some cost in speed",
        (f"export {RELAXED}=1",),
    )
    return finding(told + wrong, fix, gpus=evidence)


def _limited(device: dict[str, Any]) -> bool:
    """Whether a device has clearly more memory than its largest allocation, which is at most 4 GiB."""
    most, memory = device.get("max_allocation_bytes") or 0, device.get("memory_bytes") or 0
    # A driver keeps a part of the memory for itself, so "most" is always a little less.
    return 0 < most <= _WINDOW and memory > most * 5 // 4
