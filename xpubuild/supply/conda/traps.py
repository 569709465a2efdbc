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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from xpubuild.errors import UnsatisfiableError
from xpubuild.supply.conda.model import CondaLock, CondaPackage

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
_MOST_IN_CHAIN = 8


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
    wanted = list(roots)
    by_name = {package.name: package for package in lock.packages}
    left_out = {
        name
        for parent in STATIC_MKL
        if parent in by_name
        for name in by_name[parent].dependencies
        if kind_of(name) and name in by_name and name not in wanted
    }
    kept = _reachable(by_name, wanted, left_out)
    for name in sorted(kept):
        if kind_of(name):
            raise _refused(by_name[name], _chain(by_name, wanted, name, left_out))
    gone = sorted(set(by_name) - kept)
    packages = tuple(package for package in lock.packages if package.name in kept)
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


def _reachable(by_name: Mapping[str, CondaPackage], roots: Iterable[str], left_out: set[str]) -> set[str]:
    found: set[str] = set()
    ahead = [name for name in roots if name in by_name]
    while ahead:
        name = ahead.pop()
        if name in found:
            continue
        found.add(name)
        ahead += _needs(by_name, name, left_out)
    return found


def _needs(by_name: Mapping[str, CondaPackage], name: str, left_out: set[str]) -> list[str]:
    """Return what a package brings in; what is left out is so below static MKL only."""
    below = [need for need in by_name[name].dependencies if need in by_name]
    return [need for need in below if not (name in STATIC_MKL and need in left_out)]


def _chain(
    by_name: Mapping[str, CondaPackage], roots: Sequence[str], name: str, left_out: set[str]
) -> list[str]:
    """Return how a package came in, from what was asked for down to it."""
    before: dict[str, str | None] = {root: None for root in roots if root in by_name}
    ahead = list(before)
    while ahead and name not in before:
        parent = ahead.pop(0)
        for need in _needs(by_name, parent, left_out):
            if need not in before:
                before[need] = parent
                ahead.append(need)
    chain: list[str] = []
    step: str | None = name
    while step is not None and len(chain) < _MOST_IN_CHAIN:
        chain.insert(0, step)
        step = before.get(step)
    return chain


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
