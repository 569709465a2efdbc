"""Decides what a repair does: where each library comes from that a wheel needs, and what follows from it.

Nothing is written here. A library is looked for in this order: in the wheel, in the system as manylinux
promises it, with torch, in the distributions of the environment, with the driver, at last as the loader does.
"""

from __future__ import annotations

import os
import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import Policy, WheelPolicies

from xpubuild.artifacts.elf import ElfObject, read_shared_object
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, ORIGIN, Closure, Linker
from xpubuild.artifacts.record import hash_file
from xpubuild.artifacts.repair_model import Bundled, Decision, Edit, Expected, Pin, RepairRequest
from xpubuild.artifacts.repair_runtime import Owned, Runtime, is_runtime, loaded_by
from xpubuild.errors import AuditError, UnsatisfiableError

TORCH_LIBRARIES = ("libtorch.so", "libtorch_*.so", "libc10.so", "libc10_*.so", "libshm.so")
_HASH_CHARACTERS = 8
_MACHINES = {"EM_X86_64": Architecture.x86_64, "EM_AARCH64": Architecture.aarch64}
_LOADER = ("ld-linux", "ld64.so")


class Decider:
    """Goes through the objects of one wheel, and through what is bundled with them.

    ``dist`` is the normalised name of the wheel's distribution.
    """

    def __init__(
        self,
        dist: str,
        elves: Mapping[str, ElfObject],
        request: RepairRequest,
        runtime: Runtime,
        platforms: Platforms,
    ) -> None:
        self._dist, self._request, self._runtime, self._platforms = dist, request, runtime, platforms
        self.elves = dict(elves)
        self._folder = library_folder(dist, elves)
        self._bundled: dict[str, Bundled] = {}
        self._pinned: dict[str, Owned] = {}
        self._expected: dict[str, dict[str, None]] = {"system": {}, "driver": {}, "torch": {}, "site": {}}
        self._folders: dict[str, dict[str, None]] = {}
        self._renames: dict[str, dict[str, str]] = {}
        self._missing: list[tuple[str, str]] = []

    def decide(self) -> Decision:
        """Return what to do.

        Raises:
            UnsatisfiableError: a library is nowhere, or Intel's runtime is no installed distribution.
            AuditError: the result would have a second SYCL runtime.
        """
        search = (*self._runtime.folders(), *self._request.search)
        linker = Linker(dict(self.elves), search=search, allowed=DRIVER_LIBRARIES)
        for member in tuple(self.elves):
            self._object(member, linker.closure(member))
        self._raise_for_missing()
        self._refuse_second_sycl()
        return Decision(
            edits=dict(self._edits()),
            bundled=tuple(self._bundled.values()),
            pins=self._pins(),
            expected=Expected(**{who: tuple(sorted(names)) for who, names in self._expected.items()}),
        )

    def _object(self, member: str, closure: Closure) -> None:
        for library in self.elves[member].needed:
            self._needed(member, library, closure)

    def _needed(self, member: str, library: str, closure: Closure) -> None:
        inside = self._inside(library)
        if inside is not None:
            self._lead(member, posixpath.dirname(inside))
            return
        owned = self._runtime.find(library)
        of_torch = owned.dist.name == "torch" if owned else fits(library, TORCH_LIBRARIES)
        if self._platforms.of_system(library):
            self._expected["system"][library] = None
        elif of_torch and self._dist != "torch":
            self._expected["torch"][library] = None
        elif self._request.kind == "site":
            who = "driver" if fits(library, DRIVER_LIBRARIES) else "site"
            self._expected[who][library] = None
        elif owned is not None and not self._request.bundle:
            self._pin(owned)
            self._lead_out(member, owned)
        elif owned is not None or not fits(library, DRIVER_LIBRARIES):
            self._bundle(member, library, owned, closure)
        else:
            self._expected["driver"][library] = None

    def _inside(self, library: str) -> str | None:
        if library in self._bundled:
            return self._bundled[library].member
        return next((name for name in sorted(self.elves) if posixpath.basename(name) == library), None)

    def _lead(self, member: str, folder: str) -> None:
        self._folders.setdefault(member, {})[relative(posixpath.dirname(member), folder)] = None

    def _lead_out(self, member: str, owned: Owned) -> None:
        site = self._runtime.site_packages
        if site is not None:
            entry = leads(site, posixpath.dirname(member), owned.path.parent)
            self._folders.setdefault(member, {})[entry] = None

    def _pin(self, owned: Owned) -> None:
        """Require a distribution, with those that its library needs or opens by name."""
        if owned.library in self._pinned:
            return
        self._pinned[owned.library] = owned
        needed = read_shared_object(owned.path).needed
        others = [found for name in needed if (found := self._runtime.find(name)) is not None]
        for other in (*others, *self._runtime.matching(loaded_by(owned.library))):
            if not self._platforms.of_system(other.library) and other.dist.name not in (self._dist, "torch"):
                self._pin(other)

    def _bundle(self, member: str, library: str, owned: Owned | None, closure: Closure) -> None:
        provider = closure.found.get(library)
        source = owned.path if owned is not None else Path(provider.path) if provider is not None else None
        intel = is_runtime(library) or owned is not None
        if source is None or (intel and not self._request.bundle):
            self._missing.append((member, library))
            return
        # Others find torch's libgomp by its own name, as upstream's wheels have it.
        name = library if intel or self._dist == "torch" else hashed_name(library, source)
        target = posixpath.join(self._folder, name)
        dist = f"{owned.dist.name} {owned.dist.version}" if owned is not None else ""
        self._bundled[library] = Bundled(library, target, name, source, dist)
        self.elves[target] = read_shared_object(source)
        self._lead(member, self._folder)
        self._object(target, closure)
        for other in self._runtime.matching(loaded_by(library)):
            if self._inside(other.library) is None:
                self._bundle(target, other.library, other, closure)
            self._lead(target, self._folder)

    def _edits(self) -> Iterator[tuple[str, Edit]]:
        """Yield what changes; an object that needs no change keeps its bytes."""
        names = {item.member: item for item in self._bundled.values()}
        for member, elf in self.elves.items():
            old = (*elf.rpath, *elf.runpath)
            kept = [entry for entry in old if below(entry, posixpath.dirname(member))]
            rpath = tuple(dict.fromkeys((*kept, *self._folders.get(member, ()))))
            rename = {
                library: self._bundled[library].soname
                for library in elf.needed
                if library in self._bundled and self._bundled[library].soname != library
            }
            soname = names[member].soname if member in names else ""
            if rpath != old or rename or (soname and soname != elf.soname):
                yield member, Edit(rpath, rename, soname if soname != elf.soname else "")

    def _pins(self) -> tuple[Pin, ...]:
        libraries: dict[tuple[str, str], list[str]] = {}
        for library, owned in self._pinned.items():
            libraries.setdefault((owned.dist.name, owned.dist.version), []).append(library)
        return tuple(Pin(*key, tuple(sorted(names))) for key, names in sorted(libraries.items()))

    def _raise_for_missing(self) -> None:
        if not self._missing:
            return
        names = sorted({library for _, library in self._missing})
        intel = is_runtime(names[0])
        if intel:
            fix = (
                "install Intel's wheels with these libraries (such as intel-sycl-rt) in an environment and "
                "pass it with --runtime, or put the libraries into the wheel with --bundle"
            )
        else:
            fix = "install the package that has the library, or pass its folder with --search"
        raise UnsatisfiableError(
            f"no installed distribution has {names[0]}" if intel else f"{names[0]} was not found",
            why="; ".join(f"{member} needs {library}" for member, library in self._missing[:5]),
            fix=fix,
            evidence={"libraries": names},
        )

    def _refuse_second_sycl(self) -> None:
        ours = [name for name in self._bundled if name.startswith("libsycl")]
        if ours and self._expected["torch"]:
            raise AuditError(
                f"the wheel would have a second SYCL runtime: {ours[0]}",
                why=f"it needs torch ({', '.join(self._expected['torch'])}), which has its own",
                fix="repair it without --bundle, with --runtime for an environment that has Intel's wheels",
                evidence={"libraries": ours},
            )


def library_folder(dist: str, elves: Mapping[str, ElfObject]) -> str:
    """Return the folder that libraries are bundled in: ``lib`` of the package with most objects."""
    tops = Counter(member.split("/")[0] for member in elves if "/" in member)
    return f"{tops.most_common(1)[0][0]}/lib" if tops else f"{dist.replace('-', '_')}.libs"


def hashed_name(library: str, source: Path) -> str:
    """Return a name that no other copy of a library has: the loader keeps one library of each name."""
    stem, dot, rest = library.partition(".so")
    digest = hash_file(source).hex()[:_HASH_CHARACTERS]
    return f"{stem}-{digest}{dot}{rest}"


def fits(library: str, patterns: tuple[str, ...]) -> bool:
    """Whether a library's name fits one of some patterns."""
    return any(fnmatchcase(library, pattern) for pattern in patterns)


def relative(start: str, folder: str) -> str:
    """Return the entry that leads from one folder of a wheel to another."""
    way = posixpath.relpath(folder or ".", start or ".")
    return "$ORIGIN" if way == "." else f"$ORIGIN/{way}"


def leads(site_packages: Path, start: str, folder: Path) -> str:
    """Return the entry that leads from a folder of a wheel in ``site_packages`` to one of the environment.

    It holds wherever both are installed into one environment of the same form, which pip's --target is not.
    """
    return f"$ORIGIN/{os.path.relpath(folder, site_packages / start)}"


def below(entry: str, start: str) -> bool:
    """Whether an entry of an object in the folder ``start`` of a wheel stays inside site-packages."""
    if not ORIGIN.match(entry):
        return False
    way = posixpath.normpath(ORIGIN.sub(lambda _: start or ".", entry))
    return not way.startswith(("..", "/"))


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

    def tag(self, elves: Mapping[str, ElfObject], system: Iterable[str], *, whole: bool) -> str:
        """Return the oldest platform that has all symbol versions and libraries that the objects need.

        ``system`` are the libraries of the system: versions count for them alone. A wheel that is
        not ``whole``, because it expects libraries that no policy has, gets the plain tag of Linux.
        """
        if not whole:
            return str(self._policies.linux.name)
        libraries = {name for name in system if not name.startswith(_LOADER)}
        wanted: dict[str, set[str]] = {}
        for elf in elves.values():
            for library, versions in elf.versions_needed.items():
                if library in libraries:
                    wanted.setdefault(library, set()).update(versions)
        by_symbols = self._policies.versioned_symbols_policy(wanted)
        fitting = [policy for policy in self._policies if policy.priority and _fits(policy, elves, libraries)]
        return str(min([by_symbols, max(fitting, default=self._policies.linux)]).name)


def _fits(policy: Policy, elves: Mapping[str, ElfObject], libraries: set[str]) -> bool:
    """Whether a platform has the libraries, and allows the symbols that are wanted from them."""
    if not libraries <= policy.whitelist:
        return False
    return not any(
        library in elf.needed and not symbols.isdisjoint(elf.symbols.undefined)
        for elf in elves.values()
        for library, symbols in policy.blacklist.items()
    )


def wanted_versions(elves: Mapping[str, ElfObject], system: Iterable[str]) -> dict[str, str]:
    """Return the newest symbol version of each kind that is wanted from the system, such as GLIBC: 2.34."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for elf in elves.values():
        for library in set(system) & set(elf.versions_needed):
            for version in elf.versions_needed[library]:
                kind, _, number = version.rpartition("_")
                if kind and all(part.isdigit() for part in number.split(".")):
                    found.setdefault(kind, set()).add(tuple(map(int, number.split("."))))
    return {kind: ".".join(map(str, max(numbers))) for kind, numbers in sorted(found.items())}
