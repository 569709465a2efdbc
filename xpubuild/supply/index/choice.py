"""Which files of a release an interpreter on Linux may pick. Pure.

Every manylinux is taken, whatever glibc it asks for: which of them pip picks depends on the C library of the
machine that installs. musllinux is left out, PyTorch for XPU needs glibc.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import field
from urllib.parse import unquote, urlsplit

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import (
    NormalizedName,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.supply.requirements import releases

_PYTHON = re.compile(r"3\.\d+(\.\d+)?t?")
# PEP 600 and the names that came before it; plain linux_* is what a wheel folder may hold.
_GLIBC = r"(?:linux|manylinux1|manylinux2010|manylinux2014|manylinux_\d+_\d+)"
_ANY_PLATFORM = "linux"
# Letters that the names of files have (PEP 427, PEP 625, conda's _openmp_mutex); nothing that a path could be
# made of.
_FILENAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+!~-]*")


@frozen
class Offer:
    """A file that an index or wheel folder offers. ``url`` is exact and may hold secrets: never shown."""

    dist: NormalizedName
    version: Version
    filename: str
    url: str = field(repr=False)
    tags: frozenset[Tag] | None
    sha256: str | None = None
    size: int | None = None
    requires_python: str | None = None

    @property
    def is_wheel(self) -> bool:
        """Whether it is a wheel; else it is a source distribution."""
        return self.tags is not None


def offer(
    url: str, *, sha256: str | None = None, size: int | None = None, requires_python: str | None = None
) -> Offer | None:
    """Return the offer that a link is; None for anything that pip would not take (eggs, broken names).

    The name is the last part of the URL's path, as for pip, whatever the text of the link says.
    """
    tags: frozenset[Tag] | None = None
    try:
        filename = unquote(urlsplit(url).path).rpartition("/")[2]
        if not is_filename(filename):
            return None
        if filename.endswith(".whl"):
            dist, version, _, tags = parse_wheel_filename(filename)
        else:
            dist, version = parse_sdist_filename(filename)
    except ValueError:  # all that packaging raises for names and versions, and a URL that is none
        return None
    known = sha256.lower() if sha256 and re.fullmatch(r"[0-9a-fA-F]{64}", sha256) else None
    return Offer(canonicalize_name(dist), version, filename, url, tags, known, size, requires_python or None)


def is_filename(name: str) -> bool:
    """Return whether ``name`` can be that of a wheel or source distribution: no path, not hidden."""
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


def may_install(item: Offer, python: str, machine: str = "x86_64") -> bool:
    """Return whether ``python`` on a glibc Linux of ``machine`` can install the file.

    A minor version stands for all its releases: a file that only some of them can install counts.
    """
    if item.requires_python and not _allows(item.requires_python, python):
        return False
    if item.tags is None:
        return True
    known = _interpreter_tags(python)
    return any(
        (tag.interpreter, tag.abi, platform) in known
        for tag in item.tags
        if (platform := _platform(tag.platform, machine))
    )


def best(offers: Iterable[Offer], *, sdists: bool = True) -> list[Offer]:
    """Return the wheels, or the source distributions where there is no wheel."""
    every = list(offers)
    wheels = [item for item in every if item.is_wheel]
    return wheels or (every if sdists else [])


def matches(version: Version, specifier: SpecifierSet) -> bool:
    """Return whether a pin means this version; ``==1.0`` takes ``1.0+cpu`` too (PEP 440), as pip does."""
    return specifier.contains(version, prereleases=True)


@functools.cache
def _interpreter_tags(python: str) -> frozenset[tuple[str, str, str]]:
    threaded = python.endswith("t")
    major, minor = (int(part) for part in python.removesuffix("t").split(".")[:2])
    name = f"cp{major}{minor}"
    tags = {
        *cpython_tags((major, minor), abis=[name + ("t" if threaded else "")], platforms=[_ANY_PLATFORM]),
        *compatible_tags((major, minor), interpreter=name, platforms=[_ANY_PLATFORM]),
    }
    return frozenset((tag.interpreter, tag.abi, tag.platform) for tag in tags)


def _platform(tag: str, machine: str) -> str | None:
    if tag == "any":
        return tag
    return _ANY_PLATFORM if re.fullmatch(f"{_GLIBC}_{re.escape(machine)}", tag) else None


def _allows(requires_python: str, python: str) -> bool:
    try:
        specifier = SpecifierSet(requires_python)
    except InvalidSpecifier:
        return True  # pip ignores what it cannot read
    return any(
        specifier.contains(release, prereleases=True) for release in releases(python.removesuffix("t"))
    )
