"""The GPUs that matter, and words about them that several checks need."""

from __future__ import annotations

import re
from collections.abc import Iterable

from xpubuild.doctor.kit import Look
from xpubuild.machine.gpus import INTEL, GpuFacts
from xpubuild.machine.readers import UNKNOWN, entries, exists, read_text

MAX = "PVC (Xe-HPC)"
FLEX = "DG2/ATS-M"
#: Where an Intel GPU that is part of a processor sits on every platform so far.
_INTEGRATED = re.compile(r"[0-9a-f]{4,}:00:02\.0", re.IGNORECASE)
DRM_DRIVERS = ("i915", "xe")


def intel_gpus(look: Look) -> tuple[GpuFacts, ...]:
    """Return the display controllers of Intel, by PCI address."""
    return tuple(gpu for gpu in look.host.gpus if gpu.vendor_id == INTEL)


def bound_gpus(look: Look) -> tuple[GpuFacts, ...]:
    """Return those of Intel's that a graphics driver is bound to."""
    return tuple(gpu for gpu in intel_gpus(look) if gpu.kernel_driver in DRM_DRIVERS)


def usable_gpus(look: Look) -> tuple[GpuFacts, ...]:
    """Return the GPUs that a program may run on: supported ones, or, where none is, those that may be.

    An old graphics unit in the processor beside a Max card is no second GPU.
    """
    gpus = intel_gpus(look)
    good = tuple(gpu for gpu in gpus if supported(gpu))
    return good or tuple(gpu for gpu in gpus if gpu.family != UNKNOWN or not integrated(gpu))


def bound_usable(look: Look) -> tuple[GpuFacts, ...]:
    """Return those of ``usable_gpus`` that a graphics driver is bound to."""
    return tuple(gpu for gpu in usable_gpus(look) if gpu.kernel_driver in DRM_DRIVERS)


def out_of_tree(look: Look, driver: str) -> bool | None:
    """Whether a loaded kernel driver is not the kernel's own; None where it is not there to be asked.

    The kernel marks such modules with O in ``taint`` (Documentation/admin-guide/tainted-kernels.rst); Intel's
    backports state a version too, which i915 and xe of the kernel do not.
    """
    folder = f"/sys/module/{driver}"
    if not exists(look.path(folder)):
        return None
    if read_text(look.path(f"{folder}/version")):
        return True
    return "O" in (read_text(look.path(f"{folder}/taint")) or "")


def supported(gpu: GpuFacts) -> bool:
    """Whether it is of a family that PyTorch's XPU backend was made for."""
    return gpu.family not in (UNKNOWN, FLEX)


def integrated(gpu: GpuFacts) -> bool:
    """Whether it is part of a processor, by its place on the bus."""
    return _INTEGRATED.fullmatch(gpu.pci_address) is not None


def wants_driver(look: Look) -> bool:
    """Whether a compute driver is of use: always in an image, else with a GPU that PyTorch may run on."""
    if not look.live or wsl(look):
        return True
    return any(gpu.family != UNKNOWN or not integrated(gpu) for gpu in intel_gpus(look))


def wsl(look: Look) -> bool:
    """Whether this is Linux under Windows, where the GPU is /dev/dxg and no PCI device."""
    # A container on WSL is reported as a container first; the kernel is the one of Windows either way.
    return look.host.os.container == "wsl" or "microsoft" in look.host.os.kernel.lower()


def named(gpu: GpuFacts) -> str:
    """Return how messages call it."""
    name = gpu.name if gpu.name != UNKNOWN else f"Intel device {gpu.device_id}"
    return f"{name} at {gpu.pci_address}"


def listed(gpus: Iterable[GpuFacts]) -> str:
    """Return their names, separated by commas."""
    return ", ".join(named(gpu) for gpu in gpus)


def contained(look: Look) -> bool:
    """Whether this is a container, as far as can be known."""
    return look.host.os.container not in (UNKNOWN, "none", "wsl")


def has_pci(look: Look) -> bool:
    """Whether the tree has a PCI bus to look at; an unpacked image has none."""
    return exists(look.path("/sys/bus/pci/devices"))


def drm_nodes(look: Look) -> tuple[str, ...]:
    """Return the render nodes that /dev/dri has."""
    return tuple(
        f"/dev/dri/{path.name}" for path in entries(look.path("/dev/dri")) if path.name.startswith("renderD")
    )
