"""The environment that a repaired wheel will be installed into: which distribution has which library."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from xpubuild.artifacts.elf import is_elf
from xpubuild.artifacts.site_packages import InstalledDist, installed_dists, record_entries
from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

_TABLE = Path(__file__).with_name("repair_runtime.yaml")


@frozen
class Owned:
    """A library file, and the installed distribution whose RECORD lists it."""

    library: str
    path: Path
    dist: InstalledDist


@frozen
class Family:
    """Libraries of Intel's runtime (patterns), their oneAPI component, and those that they open by name."""

    component: str
    libraries: tuple[str, ...]
    loads: tuple[str, ...]


@functools.cache
def families() -> tuple[Family, ...]:
    """Return the table of Intel's runtime."""
    table = read_yaml(_TABLE.read_text("utf-8"))
    return tuple(
        Family(item["component"], tuple(item["libraries"]), tuple(item["loads"]))
        for item in table["families"]
    )


def component_of(library: str) -> str | None:
    """Return the oneAPI component that a library is of, None for one that is not Intel's."""
    return next((family.component for family in families() if _fits(library, family.libraries)), None)


def is_runtime(library: str) -> bool:
    """Whether a library belongs to Intel's runtime."""
    return component_of(library) is not None


def loaded_by(library: str) -> tuple[str, ...]:
    """Return the patterns of the libraries that one opens by name."""
    return tuple(
        pattern for family in families() if _fits(library, family.libraries) for pattern in family.loads
    )


def _fits(library: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(library, pattern) for pattern in patterns)


class Runtime:
    """The libraries of an environment by their file names; of none where there is no environment."""

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
        return [self._owned[name] for name in sorted(self._owned) if _fits(name, wanted)]

    def folders(self) -> tuple[Path, ...]:
        """Return the folders with libraries, that of torch first."""
        found = dict.fromkeys(item.path.parent for item in self._owned.values())
        return tuple(sorted(found, key=lambda folder: (folder.parent.name != "torch", str(folder))))


def _libraries(site_packages: Path) -> Iterator[Owned]:
    for dist in installed_dists(site_packages):
        try:
            entries = record_entries(dist)
        except (OSError, ValueError):
            continue  # a leftover: nothing in it counts as installed
        for entry in entries:
            if ".so" in entry.path.name and is_elf(entry.path):
                # The folder as the loader sees it: ``..`` of RECORD taken out.
                yield Owned(entry.path.name, Path(entry.path.parent.resolve(), entry.path.name), dist)
