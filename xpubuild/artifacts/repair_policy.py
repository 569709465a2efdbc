"""The platform tag of a wheel: auditwheel's policies, held against what this project's ELF reader finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from auditwheel.architecture import Architecture
from auditwheel.libc import Libc
from auditwheel.policy import Policy, WheelPolicies

from xpubuild.artifacts.elf import ElfObject
from xpubuild.errors import AuditError

_MACHINES = {"EM_X86_64": Architecture.x86_64, "EM_AARCH64": Architecture.aarch64}
_LOADER = ("ld-linux", "ld64.so")


class Platforms:
    """The policies for the machine that a wheel is for."""

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

        ``system`` are the libraries that the system brings: versions count for them alone. A wheel that is
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
