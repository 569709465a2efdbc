"""The libstdc++ of a conda package, derived from its version before anything is installed. Pure.

The environment's Python loads the environment's libstdc++ first. One that is older than what the GPU driver
was built with makes the Level Zero driver or loader fail to load, and torch then reports no XPU (known
failures of family A-conda-or-mixed-libstdcxx). The packages carry GCC's version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from xpubuild.supply.conda.model import CondaPackage

#: Newest symbol version of libstdc++ by the GCC release that has it first. Source: the ABI chapter of the
#: libstdc++ manual ("GLIBCXX_3.4.30: GCC 12.1" and so on).
FIRST_GCC = {
    (3, 4, 25): "8.1", (3, 4, 26): "9.1", (3, 4, 27): "9.2", (3, 4, 28): "9.3", (3, 4, 29): "11.1",
    (3, 4, 30): "12.1", (3, 4, 31): "13.1", (3, 4, 32): "13.2", (3, 4, 33): "14.1", (3, 4, 34): "15.1",
}  # fmt: skip
PACKAGES = ("libstdcxx", "libstdcxx-ng")
_VERSION = re.compile(r"GLIBCXX_(\d+(?:\.\d+)*)")


def glibcxx(name: str) -> tuple[int, ...]:
    """Return ``GLIBCXX_3.4.30`` as numbers; empty for another name."""
    match = _VERSION.fullmatch(name)
    return tuple(map(int, match[1].split("."))) if match else ()


def newest(names: Iterable[str]) -> str | None:
    """Return the newest of GLIBCXX symbol versions; None where there is none."""
    found = [name for name in names if glibcxx(name)]
    return max(found, key=glibcxx, default=None)


def gcc_for(needed: str) -> str | None:
    """Return the oldest GCC whose libstdc++ has a symbol version; None where that is not known."""
    wanted = glibcxx(needed)
    known = sorted(version for version in FIRST_GCC if version >= wanted) if wanted else []
    return FIRST_GCC[known[0]] if known else None


def too_old(packages: Sequence[CondaPackage], needed: str | None) -> tuple[CondaPackage, str] | None:
    """Return the first libstdc++ of a lock that is too old, and the version that it must have at least."""
    gcc = gcc_for(needed) if needed else None
    if gcc is None:
        return None
    for package in packages:
        if package.name in PACKAGES and _numbers(package.version) < _numbers(gcc):
            return package, gcc
    return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:2])
