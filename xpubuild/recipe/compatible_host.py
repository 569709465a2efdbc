"""The facts of this host as input of the constraint solver. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from xpubuild.machine.drivers import driver_family, loader_version
from xpubuild.machine.gpus import INTEL, intel_gpu
from xpubuild.machine.host_report import HostReport
from xpubuild.machine.oneapi_bundles import COMPILER, compiler_version
from xpubuild.machine.readers import UNKNOWN
from xpubuild.machine.versions import newest
from xpubuild.recipe.aot_targets import TARGETS_OF_FAMILY
from xpubuild.recipe.situation import Situation
from xpubuild.recipe.values import DriverFamily, GpuFamily, Target

#: What a compiler calls itself -> what CMake calls it, which is what PyTorch's build looks at.
CMAKE_ID = {"gcc": "GNU", "clang": "Clang", "icx": "IntelLLVM"}


def of_host(host: HostReport, target: Target = "xpu") -> Situation:
    """Return what a host report says: its GPUs, driver, oneAPI and default compiler and interpreters.

    Of several GPUs the family of the largest counts, a Max before an integrated one.
    """
    known = (intel_gpu(gpu.device_id) for gpu in host.gpus if gpu.vendor_id == INTEL)
    targets = tuple(dict.fromkeys(name for item in known if item is not None for name in item.targets))
    gpu = next((name for name, own in TARGETS_OF_FAMILY.items() if set(own) & set(targets)), None)
    compiler = next((item for item in host.compilers if item.name == "g++"), None)
    kind = CMAKE_ID.get(compiler.kind) if compiler else None
    own = host.python.selected.version if host.python.selected else UNKNOWN
    found = newest(item.version for item in host.python.found if item.version != UNKNOWN)
    return Situation(
        target=target,
        gpu=cast(GpuFamily | None, gpu),
        gpu_targets=tuple(name for name in targets if name in TARGETS_OF_FAMILY.get(gpu or "", ())),
        driver=cast(DriverFamily | None, driver_family(host.drivers)),
        loader=loader_version(host.drivers) if targets else None,
        oneapi=oneapi_versions((item.component, item.version) for item in host.oneapi),
        python=tuple(dict.fromkeys((*([own] if own != UNKNOWN else []), *found))),
        gcc=compiler.version if compiler and kind == "GNU" else None,
        host_compiler=kind,
    )


def oneapi_versions(components: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the versions of the oneAPI compilers among (component, folder), newest first."""
    return newest({compiler_version(version) for name, version in components if name == COMPILER})
