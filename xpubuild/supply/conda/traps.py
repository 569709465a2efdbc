"""Packages that conflict with an XPU build: which ones, and whether they can be excluded or are an error.
Pure.

Two kinds. Compilers, binutils and sysroots of conda: PyTorch's CMake and ``distutils`` would compile against
another C library than the host's, and host objects would not link. Copies of oneAPI's libraries: the loader
finds them first through the environment's ``lib`` folder, so another libsycl, Level Zero loader or MKL is
loaded than the one of the build (facts: the list that Argonne's Aurora build scripts remove by force).

``mkl-static`` is needed and declares a dependency on the runtime of TBB and of Intel's OpenMP. A static link
with sequential or GNU threads does not use them, so packages that only ``mkl-static`` and ``mkl-include``
require are excluded from the lock; those scripts remove them afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from xpubuild.errors import UnsatisfiableError
from xpubuild.supply.conda.lockfile import CondaLock, CondaPackage

#: Their declared dependencies are not needed by a static link.
STATIC_MKL = ("mkl-static", "mkl-include")
# Harmless, and needed by python itself: ld_impl (only the linker, never on PATH under its plain name),
# libgcc, libgomp, libstdcxx without -devel.
_COMPILER = re.compile(
    r"(gcc|gxx|gfortran|clang|clangxx|dpcpp|icx|icpx)(_impl)?(_linux-64|-\d+)?|"
    r"(c|cxx|fortran|dpcpp)-compiler|compilers|sysroot_linux-64|kernel-headers_linux-64|"
    r"binutils(_impl)?(_linux-64)?|lib(gcc|stdcxx)-devel_linux-64|compiler-rt(_linux-64)?|lld|llvm-tools"
)
_SHADOW = re.compile(
    r"mkl|mkl-devel|mkl-dpcpp|mkl-service|mkl_fft|mkl_random|mkl_umath|onemkl-sycl-[a-z]+|onemkl-devel(-[a-z]+)?|"
    r"tbb|tbb-devel|tcm|tcmlib|umf|(lib)?umf-devel|"
    r"intel-openmp|intel-sycl-rt|intel-opencl-rt|intel-cmplr-li[bc]-(rt|ur)|intel-fortran-rt|"
    r"dpcpp-cpp-rt|dpcpp_cpp_rt|dpcpp-llvm-spirv|intel-gpu-ocl-icd-system|intelpython\d*(_core|_full)?|"
    r"intel-pti|oneccl(-devel)?|impi[-_](rt|devel)|mpich|openmpi|level-zero(-devel)?|"
    r"intel-compute-runtime|intel-graphics-compiler|onednn(-[a-z-]+)?|mkl-dnn|libhwloc-intel"
)


def kind_of(name: str) -> str | None:
    """Return why a package harms a build, in words; None for a harmless one."""
    if _COMPILER.fullmatch(name):
        return "it contains a compiler, linker or C library headers besides those of the host"
    if _SHADOW.fullmatch(name):
        return "its libraries would be found before those of oneAPI and the driver"
    return None


def keep_out(lock: CondaLock, roots: Iterable[str]) -> CondaLock:
    """Return the lock without what only static MKL asks for; ``roots`` are the names that were asked for.

    Raises:
        UnsatisfiableError: a harmful package was asked for, or something needs it.
    """
    wanted, by_name = list(roots), {package.name: package for package in lock.packages}

    def needs(name: str) -> list[str]:
        """Return what a package brings in; what harms is left out below static MKL only."""
        below = [need for need in by_name[name].dependencies if need in by_name]
        skipped = name in STATIC_MKL
        return [need for need in below if not (skipped and need not in wanted and kind_of(need))]

    came_by: dict[str, str | None] = {name: None for name in wanted if name in by_name}
    ahead = list(came_by)
    while ahead:
        parent = ahead.pop(0)
        for need in needs(parent):
            if need not in came_by:
                came_by[need] = parent
                ahead.append(need)
    for name in sorted(filter(kind_of, came_by)):
        chain: list[str] = []
        step: str | None = name
        while step is not None:
            chain.insert(0, step)
            step = came_by[step]
        raise _refused(by_name[name], chain)
    gone = set(by_name) - set(came_by)
    packages = tuple(package for package in lock.packages if package.name in came_by)
    return replace(lock, packages=packages, left_out=tuple(sorted({*lock.left_out, *gone})))


def refuse(packages: Sequence[CondaPackage]) -> None:
    """Refuse a finished lock with a harmful package in it, whoever wrote it.

    Raises:
        UnsatisfiableError: there is one.
    """
    for package in packages:
        if kind_of(package.name):
            askers = sorted(item.name for item in packages if package.name in item.dependencies)
            raise _refused(package, [*askers[:1], package.name])


def _refused(package: CondaPackage, chain: Sequence[str]) -> UnsatisfiableError:
    through = f" (required by {' -> '.join(chain)})" if len(chain) > 1 else ""
    return UnsatisfiableError(
        f"the conda package {package.title} must not be in an environment that builds for XPU",
        why=f"{kind_of(package.name)}{through}",
        fix=(
            "remove the package that requires it from toolchain.conda.packages, or install that with pip "
            "or from the system; compilers come from the host, SYCL and MKL's dynamic libraries from "
            "oneAPI"
        ),
        evidence={"package": package.name, "through": list(chain)},
    )
