"""Files of packages: one that is fetched by its URL, and which wheels an interpreter on Linux may install.

Every manylinux counts, whatever glibc it asks for: which of them can be installed depends on the C library of
the machine that installs. musllinux is left out, PyTorch for XPU needs glibc.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import field

from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import InvalidVersion

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen

_PYTHON = re.compile(r"3\.\d+(\.\d+)?t?")
_NEWEST_GLIBC = 50
#: Of the platforms that it is given, pip takes the first that has a file: the oldest C library first, so that
#: what is fetched can be installed on as many machines as possible.
PLATFORMS = (
    *(f"manylinux{name}_x86_64" for name in ("1", "2010", "2014")),
    *(f"manylinux_2_{minor}_x86_64" for minor in range(5, _NEWEST_GLIBC)),
    "linux_x86_64",
)
# Letters that the names of files have (PEP 427, PEP 625, conda's _openmp_mutex); nothing that a path could be
# made of.
_FILENAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!~-]*")


@frozen
class RemoteFile:
    """A conda package, an archive or a file of a served mirror; ``size`` in bytes.

    ``url`` may be written down: no user, no password, no query. ``origin`` is the exact link, which may hold
    secrets, and no part of what is compared, shown or recorded. ``sha256`` is None where nobody states it.
    ``is_archive`` marks an archive that a build would download itself.
    """

    dist: str
    version: str
    filename: str
    sha256: str | None
    size: int | None
    url: str
    origin: str = field(default="", repr=False, compare=False)
    is_archive: bool = False

    @property
    def link(self) -> str:
        """The link to ask."""
        return self.origin or self.url


def is_filename(name: str) -> bool:
    """Return whether ``name`` can be that of a wheel or archive: no path, not hidden."""
    return _FILENAME.fullmatch(name) is not None


def checked_pythons(pythons: Iterable[str]) -> tuple[str, ...]:
    """Return the interpreters without repetition.

    Raises:
        UsageError: one is no version of CPython 3 ("3.11", "3.11.7", "3.13t").
    """
    found = tuple(dict.fromkeys(pythons))
    for python in found:
        if not _PYTHON.fullmatch(python):
            raise UsageError(
                f"'{python}' is not a version of Python",
                fix="write it as 3.11, 3.11.7, or 3.13t for a free-threaded build",
            )
    return found


def abi_of(python: str) -> str:
    """Return the ABI tag of a CPython: cp313t for 3.13t."""
    major, minor = python.removesuffix("t").split(".")[:2]
    return f"cp{major}{minor}{'t' if python.endswith('t') else ''}"


def can_install(filename: str, python: str) -> bool:
    """Return whether ``python`` on a glibc Linux of x86_64 can install the wheel of this name."""
    try:
        tags = parse_wheel_filename(filename)[3]
    except (InvalidWheelFilename, InvalidVersion):
        return False
    return not tags.isdisjoint(_tags(python))


@functools.cache
def _tags(python: str) -> frozenset[object]:
    abi = abi_of(python)
    major, minor = (int(part) for part in python.removesuffix("t").split(".")[:2])
    return frozenset({
        *cpython_tags((major, minor), abis=[abi], platforms=PLATFORMS),
        *compatible_tags((major, minor), interpreter=abi.removesuffix("t"), platforms=PLATFORMS),
    })  # fmt: skip
