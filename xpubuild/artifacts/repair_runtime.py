"""The environment that a repaired wheel will be installed into: which distribution has which library."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from xpubuild.artifacts.elf import is_elf
from xpubuild.artifacts.site_packages import InstalledDist, installed_dists, readable_entries
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

TORCH_LIBRARIES = ("libtorch.so", "libtorch_*.so", "libc10.so", "libc10_*.so", "libshm.so")
_TABLE = Path(__file__).with_name("repair_runtime.yaml")


@frozen
class Owned:
    """A library file, and the installed distribution whose RECORD lists it."""

    library: str
    path: Path
    dist: InstalledDist


@functools.cache
def _families() -> list[dict[str, Any]]:
    """Return the table of Intel's runtime: libraries (patterns), their component, and what they load."""
    found: list[dict[str, Any]] = read_yaml(_TABLE.read_text("utf-8"))["families"]
    return found


def component_of(library: str) -> str | None:
    """Return the oneAPI component that a library is of, None for one that is not Intel's."""
    return next((item["component"] for item in _families() if fits(library, item["libraries"])), None)


def distributions_of(library: str) -> tuple[str, ...]:
    """Return the distributions that bring a library, or require the one that does; none of an unknown one."""
    if fits(library, TORCH_LIBRARIES):
        return ("torch",)
    return tuple(dict.fromkeys(
        dist for item in _families() if fits(library, item["libraries"]) for dist in item["dists"]
    ))  # fmt: skip


def loaded_by(library: str) -> tuple[str, ...]:
    """Return the patterns of the libraries that one opens by name."""
    return tuple(name for item in _families() if fits(library, item["libraries"]) for name in item["loads"])


def fits(library: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a library is that of one of the patterns."""
    return any(fnmatchcase(library, pattern) for pattern in patterns)


class Runtime:
    """The libraries of an environment by their file names; empty without an environment."""

    def __init__(self, site_packages: Path | None) -> None:
        self.site_packages = site_packages.resolve() if site_packages is not None else None
        self._owned: dict[str, Owned] = {}
        for item in _libraries(site_packages) if site_packages is not None else ():
            self._owned.setdefault(item.library, item)

    def find(self, library: str) -> Owned | None:
        """Return the library of that name, None where no distribution has it."""
        return self._owned.get(library)

    def matching(self, patterns: Iterable[str]) -> list[Owned]:
        """Return the libraries that fit one of the patterns, in the order of their names."""
        wanted = tuple(patterns)
        return [self._owned[name] for name in sorted(self._owned) if fits(name, wanted)]

    def folders(self) -> tuple[Path, ...]:
        """Return the folders with libraries, that of torch first."""
        found = dict.fromkeys(item.path.parent for item in self._owned.values())
        return tuple(sorted(found, key=lambda folder: (folder.parent.name != "torch", str(folder))))


def _libraries(site_packages: Path) -> Iterator[Owned]:
    for dist in installed_dists(site_packages):
        for entry in readable_entries(dist):  # a leftover has no installed files
            if ".so" in entry.path.name and is_elf(entry.path):
                # The folder as the loader sees it: ``..`` of RECORD taken out.
                yield Owned(entry.path.name, Path(entry.path.parent.resolve(), entry.path.name), dist)
