"""The facts of this host as input of the constraint solver. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xpubuild.machine.drivers import driver_family
from xpubuild.machine.gpus import GpuFacts
from xpubuild.machine.host_report import HostReport
from xpubuild.machine.oneapi_bundles import COMPILER, compiler_version
from xpubuild.machine.pci_names import INTEL, intel_gpu
from xpubuild.machine.readers import UNKNOWN
from xpubuild.machine.versions import newest
from xpubuild.recipe.aot_targets import TARGETS_OF_FAMILY
from xpubuild.recipe.situation import Situation
from xpubuild.recipe.values import DriverFamily, GpuFamily, Target

#: What a compiler calls itself -> what CMake calls it, which is what PyTorch's build looks at.
CMAKE_ID = {"gcc": "GNU", "clang": "Clang", "icx": "IntelLLVM"}


def of_host(host: HostReport, target: Target = "xpu") -> Situation:
    """Return what a host report says: its GPUs, driver, oneAPI and default compiler and interpreters."""
    gpu = gpu_of(host.gpus)
    compiler = next((item for item in host.compilers if item.name == "g++"), None)
    kind = CMAKE_ID.get(compiler.kind) if compiler else None
    own = host.python.selected.version if host.python.selected else None
    found = newest(item.version for item in host.python.found if item.version != UNKNOWN)
    pythons = tuple(dict.fromkeys((*([own] if own and own != UNKNOWN else []), *found)))
    return Situation(
        target=target,
        gpu=gpu,
        gpu_targets=tuple(name for name in _targets(host.gpus) if _family(name) == gpu),
        driver=cast(DriverFamily | None, driver_family(host.drivers)),
        oneapi=oneapi_versions((item.component, item.version) for item in host.oneapi),
        python=pythons,
        gcc=compiler.version if compiler and kind == "GNU" else None,
        host_compiler=kind,
    )


def oneapi_versions(components: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the versions of the oneAPI compilers among (component, folder), newest first."""
    return newest({compiler_version(version) for name, version in components if name == COMPILER})


def gpu_of(gpus: Iterable[GpuFacts]) -> GpuFamily | None:
    """Return the family of Intel's GPUs here; of several the largest, a Max before an integrated one."""
    families = {_family(target) for target in _targets(gpus)}
    return next((cast(GpuFamily, family) for family in TARGETS_OF_FAMILY if family in families), None)


def _targets(gpus: Iterable[GpuFacts]) -> tuple[str, ...]:
    known = (intel_gpu(gpu.device_id) for gpu in gpus if gpu.vendor_id == INTEL)
    return tuple(dict.fromkeys(target for item in known if item is not None for target in item.targets))


def _family(target: str) -> str | None:
    return next((family for family, targets in TARGETS_OF_FAMILY.items() if target in targets), None)
