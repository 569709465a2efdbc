"""Decides what a repair does: where each library comes from that a wheel needs, and what follows from it.

Nothing is written here. A library is looked for in this order: in the wheel, in the system as manylinux
promises it, with torch, in the distributions of the environment, with the driver, at last as the loader does.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import WheelPolicies

from xpubuild.artifacts.elf import Elves, read_shared_object
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, ORIGIN, Closure, Linker
from xpubuild.artifacts.repair_runtime import TORCH_LIBRARIES, Owned, Runtime, families_of, fits
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.errors import AuditError, UnsatisfiableError
from xpubuild.frozen import frozen

_MACHINES = {"EM_X86_64": Architecture.x86_64, "EM_AARCH64": Architecture.aarch64}
_LOADER = ("ld-linux", "ld64.so")
_HASH_CHARACTERS = 8
#: What tags were called before they named a version of glibc.
_EARLY = {"manylinux1": "_2_5_", "manylinux2010": "_2_12_", "manylinux2014": "_2_17_"}


@frozen
class Pin:
    """A distribution that the repaired wheel requires, for these libraries of it."""

    name: str
    version: str
    libraries: tuple[str, ...]


@frozen
class Bundled:
    """A library that is copied into the wheel: as ``member``, with the SONAME ``soname``."""

    library: str
    member: str
    soname: str
    source: Path


@frozen
class Edit:
    """What changes in one shared object; ``rename`` maps old to new names of needed libraries."""

    rpath: tuple[str, ...]
    rename: Mapping[str, str] = field(default_factory=dict)
    soname: str = ""


@frozen
class Expected:
    """Libraries that are neither in the wheel nor in a pinned distribution, by where they come from."""

    system: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    torch: tuple[str, ...] = ()


@frozen
class Decision:
    """All that a repair does to a wheel. ``edits`` are by member, those of ``bundled`` included."""

    edits: Mapping[str, Edit] = field(default_factory=dict)
    bundled: tuple[Bundled, ...] = ()
    pins: tuple[Pin, ...] = ()
    expected: Expected = Expected()


class Decider:
    """Goes through the objects of one wheel, and through what is bundled with them.

    ``dist`` is the normalised name of the wheel's distribution, ``runtime`` the environment with what it
    needs (Intel's, torch), ``search`` are more folders with libraries.
    """

    def __init__(
        self, dist: str, elves: Elves, runtime: Runtime, search: Sequence[Path], platforms: Platforms
    ) -> None:
        self._dist, self._runtime, self._search, self._platforms = dist, runtime, search, platforms
        self.elves = dict(elves)
        # ``lib`` of the package with most objects.
        tops = Counter(member.split("/")[0] for member in elves if "/" in member)
        self._folder = f"{tops.most_common(1)[0][0]}/lib" if tops else f"{dist.replace('-', '_')}.libs"
        self._bundled: dict[str, Bundled] = {}
        self._pinned: dict[str, Owned] = {}
        self._expected: dict[str, set[str]] = {"system": set(), "driver": set(), "torch": set()}
        self._rpaths: dict[str, list[str]] = {}
        self._missing: dict[str, str] = {}

    def decide(self) -> Decision:
        """Return what to do.

        Raises:
            UnsatisfiableError: a library is nowhere, or Intel's runtime is no installed distribution.
        """
        search = (*self._runtime.folders(), *self._search)
        linker = Linker(dict(self.elves), search=search, allowed=DRIVER_LIBRARIES)
        for member in tuple(self.elves):
            self._object(member, linker.closure(member))
        self._refuse()
        libraries: dict[tuple[str, str], list[str]] = {}
        for library, owned in sorted(self._pinned.items()):
            libraries.setdefault((owned.dist.name, owned.dist.version), []).append(library)
        return Decision(
            edits=dict(self._edits()),
            bundled=tuple(self._bundled.values()),
            pins=tuple(Pin(*dist, tuple(names)) for dist, names in sorted(libraries.items())),
            expected=Expected(**{who: tuple(sorted(names)) for who, names in self._expected.items()}),
        )

    def _object(self, member: str, closure: Closure) -> None:
        for library in self.elves[member].needed:
            inside, owned = self._inside(library), self._runtime.owned.get(library)
            of_torch = owned.dist.name == "torch" if owned else fits(library, TORCH_LIBRARIES)
            if inside is not None:
                self._lead(member, posixpath.dirname(inside))
            elif self._platforms.of_system(library):
                self._expected["system"].add(library)
            elif of_torch and self._dist != "torch":
                self._expected["torch"].add(library)
            elif owned is not None:
                self._pin(owned)
                # It leads there wherever both are installed into one environment (not with --target).
                here = self._runtime.site_packages or Path()
                way = os.path.relpath(owned.path.parent, here / posixpath.dirname(member))
                self._rpaths.setdefault(member, []).append(f"$ORIGIN/{way}")
            elif fits(library, DRIVER_LIBRARIES):
                self._expected["driver"].add(library)
            else:
                self._bundle(member, library, closure)

    def _inside(self, library: str) -> str | None:
        if library in self._bundled:
            return self._bundled[library].member
        return next((name for name in sorted(self.elves) if posixpath.basename(name) == library), None)

    def _lead(self, member: str, folder: str) -> None:
        way = posixpath.relpath(folder or ".", posixpath.dirname(member) or ".")
        self._rpaths.setdefault(member, []).append("$ORIGIN" if way == "." else f"$ORIGIN/{way}")

    def _pin(self, owned: Owned) -> None:
        """Require a distribution, with those that its library needs or opens by name."""
        library, there = owned.path.name, self._runtime.owned
        if library in self._pinned:
            return
        self._pinned[library] = owned
        others = [there[name] for name in read_shared_object(owned.path).needed if name in there]
        opened = [pattern for row in families_of(library) for pattern in row["loads"]]
        for other in (*others, *(there[name] for name in sorted(there) if fits(name, opened))):
            system = self._platforms.of_system(other.path.name)
            if not system and other.dist.name not in (self._dist, "torch"):
                self._pin(other)

    def _bundle(self, member: str, library: str, closure: Closure) -> None:
        provider = closure.found.get(library)
        if provider is None or families_of(library):
            self._missing.setdefault(library, member)
            return
        source, name = Path(provider.path), library
        # The loader keeps one library of each name. Others find torch's libgomp by its own name, as in
        # upstream's wheels.
        if self._dist != "torch":
            stem, dot, rest = library.partition(".so")
            name = f"{stem}-{file_sha256(source)[:_HASH_CHARACTERS]}{dot}{rest}"
        target = posixpath.join(self._folder, name)
        self._bundled[library] = Bundled(library, target, name, source)
        self.elves[target] = read_shared_object(source)
        self._lead(member, self._folder)
        self._object(target, closure)

    def _edits(self) -> Iterator[tuple[str, Edit]]:
        """Yield what changes; an object that needs no change keeps its bytes."""
        names = {item.member: item.soname for item in self._bundled.values()}
        new = {item.library: item.soname for item in self._bundled.values() if item.soname != item.library}
        for member, elf in self.elves.items():
            old = (*elf.rpath, *elf.runpath)
            kept = [entry for entry in old if _below(entry, posixpath.dirname(member))]
            rpath = tuple(dict.fromkeys((*kept, *self._rpaths.get(member, ()))))
            rename = {library: new[library] for library in elf.needed if library in new}
            soname = names.get(member, elf.soname)
            if rpath != old or rename or soname != elf.soname:
                yield member, Edit(rpath, rename, soname if soname != elf.soname else "")

    def _refuse(self) -> None:
        if not self._missing:
            return
        first, *_ = sorted(self._missing)
        what = f"{first} was not found"
        fix = "install the package that has the library, or pass its folder with --search"
        if families_of(first):
            what = f"no installed distribution has {first}"
            fix = (
                "install Intel's wheels with these libraries (such as intel-sycl-rt) in an environment "
                "and pass it with --runtime"
            )
        why = "; ".join(f"{member} needs {library}" for library, member in self._missing.items())
        raise UnsatisfiableError(what, why=why, fix=fix, evidence={"libraries": sorted(self._missing)})


def _below(entry: str, start: str) -> bool:
    """Whether an entry of an object in the folder ``start`` of a wheel stays inside site-packages."""
    way = posixpath.normpath(ORIGIN.sub(lambda _: start or ".", entry))
    return ORIGIN.match(entry) is not None and not way.startswith(("..", "/"))


class Platforms:
    """auditwheel's policies for the machine that a wheel is for."""

    def __init__(self, machines: Iterable[str]) -> None:
        found = sorted(set(machines))
        if len(found) != 1 or found[0] not in _MACHINES:
            raise AuditError(
                "the wheel has no platform tag of manylinux",
                why=f"its shared objects are for {', '.join(found)}",
                fix=f"repair wheels with shared objects for one of {', '.join(_MACHINES)}",
            )
        self._policies = WheelPolicies(libc=Libc.GLIBC, arch=_MACHINES[found[0]])
        self._allowed = frozenset[str]().union(*(policy.whitelist for policy in self._policies))

    def of_system(self, library: str) -> bool:
        """Whether every manylinux system has a library, at least those of the newest policy."""
        return library in self._allowed or library.startswith(_LOADER)

    def has(self, tag: str, library: str, version: str) -> bool:
        """Whether every system of a manylinux tag has a symbol version of one of its libraries."""
        wanted = self._policies.versioned_symbols_policy({library: {version}})
        glibc = _glibc(tag)
        # Of a tag between two policies the older one counts.
        older = [item.priority for item in self._policies if item.priority and _glibc(item.name) <= glibc]
        return bool(min(older, default=self._policies.highest.priority) <= wanted.priority)

    def tag(self, elves: Elves, system: Iterable[str]) -> str:
        """Return the oldest platform that has all symbol versions and libraries that the objects need.

        ``system`` are the libraries of the system: versions count for them alone.
        """
        libraries = {name for name in system if not name.startswith(_LOADER)}
        wanted: dict[str, set[str]] = {}
        for library, version in _wanted(elves, libraries):
            wanted.setdefault(library, set()).add(version)
        fitting = [
            policy
            for policy in self._policies
            if policy.priority
            and libraries <= policy.whitelist
            and not any(
                library in elf.needed and not symbols.isdisjoint(elf.symbols.undefined)
                for elf in elves.values()
                for library, symbols in policy.blacklist.items()
            )
        ]
        by_symbols = self._policies.versioned_symbols_policy(wanted)
        return str(min([by_symbols, max(fitting, default=self._policies.linux)]).name)


def _glibc(tag: str) -> tuple[int, ...]:
    """Return the version of glibc that a manylinux tag stands for."""
    name = next((new for old, new in _EARLY.items() if tag.startswith(f"{old}_")), tag)
    return tuple(map(int, re.findall(r"_(\d+)(?=_)", f"{name}_")[:2]))


def _wanted(elves: Elves, libraries: Iterable[str]) -> Iterator[tuple[str, str]]:
    for elf in elves.values():
        for library in set(libraries) & set(elf.versions_needed):
            yield from ((library, version) for version in elf.versions_needed[library])


def newest_versions(elves: Elves, system: Iterable[str]) -> dict[str, str]:
    """Return the newest symbol version of each kind that is wanted from the system, such as GLIBC: 2.34."""
    found: dict[str, tuple[int, ...]] = {}
    for _, version in _wanted(elves, system):
        kind, _, number = version.rpartition("_")
        if kind and number.replace(".", "").isdigit():
            found[kind] = max(found.get(kind, ()), tuple(map(int, number.split("."))))
    return {kind: ".".join(map(str, numbers)) for kind, numbers in sorted(found.items())}
