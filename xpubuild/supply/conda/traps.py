"""Packages that conflict with an XPU build, and a libstdc++ that is too old for the driver.

Compilers, binutils, sysroots of conda: PyTorch's CMake and ``distutils`` would compile against another C
library than the host's, and host objects would not link. Copies of oneAPI's libraries: the loader finds them
first through the environment's ``lib`` folder, so another libsycl, Level Zero loader or MKL is loaded than
the one of the build (facts: the list that Argonne's Aurora build scripts remove by force). conda's
``mkl-static`` depends on such copies: static MKL comes from pip, as in a virtual environment.

The environment's Python loads the environment's libstdc++ first. One that is older than what the GPU driver
was built with makes the Level Zero driver fail to load, and torch then reports no XPU (known failures of
family A-conda-or-mixed-libstdcxx).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from xpubuild.artifacts.elf import is_elf, read_shared_object
from xpubuild.errors import AuditError, UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.supply.conda.lockfile import CondaPackage

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


STDLIB = "libstdc++.so.6"
#: Where distributions have the driver and the C++ library; also those of the host's report.
FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64", "lib64")
#: The Level Zero driver and loader: what fails to load beside an older libstdc++ (known failures, family A).
DRIVER = ("libze_intel_gpu.so.1*", "libze_loader.so.1*")
_VERSION = re.compile(r"GLIBCXX_(\d+(?:\.\d+)*)")


def kind_of(name: str) -> str | None:
    """Return why a package harms a build, in words; None for a harmless one."""
    if _COMPILER.fullmatch(name):
        return "it contains a compiler, linker or C library headers besides those of the host"
    if _SHADOW.fullmatch(name):
        return "its libraries would be found before those of oneAPI and the driver"
    return None


def refuse(packages: Sequence[CondaPackage]) -> None:
    """Refuse a lock with a harmful package in it, whoever wrote it.

    Raises:
        UnsatisfiableError: there is one.
    """
    for package in packages:
        if (why := kind_of(package.name)) is None:
            continue
        askers = sorted(item.name for item in packages if package.name in item.dependencies)
        raise UnsatisfiableError(
            f"the conda package {package.title} must not be in an environment that builds for XPU",
            why=f"{why} (required by {', '.join(askers)})" if askers else why,
            fix="remove the package that requires it from toolchain.conda.packages, or install that with pip"
            " or from the system; compilers come from the host, SYCL from oneAPI, static MKL from pip",
            evidence={"package": package.name, "through": askers},
        )


@frozen
class CxxNeed:
    """The newest symbol version (``GLIBCXX_3.4.30``) that this machine needs, and the file that needs it."""

    version: str
    source: str


def glibcxx(name: str) -> tuple[int, ...]:
    """Return ``GLIBCXX_3.4.30`` as numbers; empty for another name."""
    match = _VERSION.fullmatch(name)
    return tuple(map(int, match[1].split("."))) if match else ()


def newest(names: Iterable[str]) -> str | None:
    """Return the newest of GLIBCXX symbol versions; None where there is none."""
    return max(filter(glibcxx, names), key=glibcxx, default=None)


def machine_need(root: Path = Path("/")) -> CxxNeed | None:
    """Return what an environment's libstdc++ must have; None where nothing can be read.

    It must satisfy the driver, and have what the system's has: the host's compiler links against that.
    Files that cannot be read say nothing.
    """
    return max(_needs(root), key=lambda need: glibcxx(need.version), default=None)


def _needs(root: Path) -> Iterator[CxxNeed]:
    for pattern in (*DRIVER, STDLIB):
        paths = (path for folder in FOLDERS for path in sorted((root / folder).glob(pattern)))
        for path in filter(is_elf, paths):
            try:
                found = read_shared_object(path)
            except AuditError:
                continue
            names = found.versions_defined if pattern == STDLIB else found.versions_needed.get(STDLIB, ())
            if version := newest(names):
                yield CxxNeed(version, str(path))


def provided(library: Path) -> str | None:
    """Return the newest symbol version that a libstdc++ has.

    Raises:
        AuditError: it cannot be read.
    """
    return newest(read_shared_object(library).versions_defined)
