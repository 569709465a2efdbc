"""Which libstdc++ this machine needs, and the one of a conda package.

The environment's Python loads the environment's libstdc++ first. One that is older than what the GPU driver
was built with makes the Level Zero driver or loader fail to load, and torch then reports no XPU (known
failures of family A-conda-or-mixed-libstdcxx). The packages carry GCC's version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from xpubuild.artifacts.elf import is_elf, read_shared_object
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen
from xpubuild.supply.conda.lockfile import CondaPackage

STDLIB = "libstdc++.so.6"
#: Where distributions have the driver and the C++ library; also those of the host's report.
FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64", "lib64")
#: The Level Zero driver and loader: what fails to load beside an older libstdc++ (known failures, family A).
DRIVER = ("libze_intel_gpu.so.1*", "libze_loader.so.1*")
#: Newest symbol version of libstdc++ by the GCC release that has it first. Source: the ABI chapter of the
#: libstdc++ manual ("GLIBCXX_3.4.30: GCC 12.1" and so on).
FIRST_GCC = {
    (3, 4, 25): "8.1", (3, 4, 26): "9.1", (3, 4, 27): "9.2", (3, 4, 28): "9.3", (3, 4, 29): "11.1",
    (3, 4, 30): "12.1", (3, 4, 31): "13.1", (3, 4, 32): "13.2", (3, 4, 33): "14.1", (3, 4, 34): "15.1",
}  # fmt: skip
_PACKAGES = ("libstdcxx", "libstdcxx-ng")
_VERSION = re.compile(r"GLIBCXX_(\d+(?:\.\d+)*)")


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


def gcc_for(needed: str) -> str | None:
    """Return the oldest GCC whose libstdc++ has a symbol version; None where that is not known."""
    wanted = glibcxx(needed)
    known = sorted(version for version in FIRST_GCC if version >= wanted) if wanted else []
    return FIRST_GCC[known[0]] if known else None


def too_old(packages: Sequence[CondaPackage], needed: str | None) -> tuple[CondaPackage, str] | None:
    """Return the first libstdc++ of a lock that is too old, and the version that it must have at least."""
    gcc = gcc_for(needed) if needed else None
    old = (
        item for item in packages if gcc and item.name in _PACKAGES and _numbers(item.version) < _numbers(gcc)
    )
    return next(((item, gcc or "") for item in old), None)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])


def machine_need(root: Path = Path("/")) -> CxxNeed | None:
    """Return what an environment's libstdc++ must have; None where nothing can be read.

    It must satisfy the driver, and have what the system's has: the host's compiler links against that.
    Files that cannot be read say nothing.
    """
    return max(_needs(root), key=lambda need: glibcxx(need.version), default=None)


def _needs(root: Path) -> Iterator[CxxNeed]:
    for pattern in (*DRIVER, STDLIB):
        for path in (
            path for folder in FOLDERS for path in sorted((root / folder).glob(pattern)) if is_elf(path)
        ):
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
