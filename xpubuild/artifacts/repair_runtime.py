"""The environment that a repaired wheel will be installed into: which distribution has which library."""

from __future__ import annotations

import functools
from collections.abc import Iterable
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

    path: Path
    dist: InstalledDist


@functools.cache
def _families() -> list[dict[str, Any]]:
    """Return the table of Intel's runtime: libraries (patterns), their component, and what they load."""
    found: list[dict[str, Any]] = read_yaml(_TABLE.read_text("utf-8"))["families"]
    return found


def families_of(library: str) -> list[dict[str, Any]]:
    """Return the rows of Intel's runtime that a library is of; none of one that is not Intel's."""
    return [row for row in _families() if fits(library, row["libraries"])]


def distributions_of(library: str) -> tuple[str, ...]:
    """Return the distributions that bring a library, or require the one that does; none of an unknown one."""
    if fits(library, TORCH_LIBRARIES):
        return ("torch",)
    return tuple(dict.fromkeys(dist for row in families_of(library) for dist in row["dists"]))


def fits(library: str, patterns: Iterable[str]) -> bool:
    """Whether the name of a library is that of one of the patterns."""
    return any(fnmatchcase(library, pattern) for pattern in patterns)


class Runtime:
    """The libraries of an environment (``owned``, by their file names); none without an environment."""

    def __init__(self, site_packages: Path | None) -> None:
        self.site_packages = site_packages.resolve() if site_packages is not None else None
        self.owned: dict[str, Owned] = {}
        for dist in installed_dists(site_packages) if site_packages is not None else ():
            for entry in readable_entries(dist):  # a leftover has no installed files
                name = entry.path.name
                if ".so" in name and is_elf(entry.path):
                    # The folder as the loader sees it: ``..`` of RECORD taken out.
                    self.owned.setdefault(name, Owned(Path(entry.path.parent.resolve(), name), dist))

    def folders(self) -> tuple[Path, ...]:
        """Return the folders with libraries, that of torch first."""
        found = dict.fromkeys(item.path.parent for item in self.owned.values())
        return tuple(sorted(found, key=lambda folder: (folder.parent.name != "torch", str(folder))))
