"""Reads a hashed requirements file: which distributions it installs for one Python. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.markers import Marker
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen

_SHA256 = re.compile(r"--hash[=\s]\s*sha256:([0-9a-fA-F]{64})(?!\S)")
# A release of a Python that is named by its minor version only: no CPython line had as many.
_LAST_MICRO = 99


@frozen
class HashedPin:
    """One ``name==version`` of a requirements file and the sha256 (lower-case hex) that it allows."""

    name: str
    version: str
    specifier: SpecifierSet
    marker: Marker | None
    hashes: frozenset[str]

    def allows(self, version: Version | str) -> bool:
        """Whether a version is the pinned one."""
        return self.specifier.contains(version, prereleases=True)

    def applies(self, python_version: str, machine: str = "x86_64") -> bool:
        """Whether the marker holds for an interpreter on Linux.

        ``python_version`` may be a minor version ("3.11"): true then where it holds for some release of it.
        """
        if self.marker is None:
            return True
        minor = len(Version(python_version).release) <= 2  # noqa: PLR2004 (major.minor.micro)
        every = [f"{python_version}.{micro}" for micro in (0, _LAST_MICRO)] if minor else [python_version]
        return any(self.marker.evaluate(marker_environment(version, machine)) for version in every)


def hashed_pins(text: str) -> tuple[HashedPin, ...]:
    """Return every pin of a requirements file, whatever its marker, with its hashes.

    Raises:
        RecipeError: a line is no ``name==version`` requirement.
    """
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        bare = line.partition(" #")[0]
        entry = bare.partition("--hash")[0].strip()
        if not entry or entry.startswith(("#", "-")):
            continue
        try:
            requirement = Requirement(entry)
        except InvalidRequirement as error:
            raise _refused(f"'{entry}' in a requirements file is not a requirement", str(error)) from error
        exact = [item.version for item in requirement.specifier if item.operator in ("==", "===")]
        if len(exact) != 1:
            why = "it has no exact version; what is installed must be known beforehand"
            raise _refused(f"'{requirement}' in a requirements file is not an exact pin", why)
        hashes = frozenset(sha256.lower() for sha256 in _SHA256.findall(bare))
        specifier, marker = requirement.specifier, requirement.marker
        found.append(HashedPin(requirement.name, exact[0], specifier, marker, hashes))
    return tuple(found)


def require_hashes(pins: Iterable[HashedPin]) -> None:
    """Raise RecipeError where a pin has no sha256."""
    for pin in pins:
        if not pin.hashes:
            why = "a file is only used if its hash is known beforehand"
            raise _refused(f"{pin.name}=={pin.version} in a requirements file has no sha256", why)


def pinned(text: str, python_version: str) -> tuple[tuple[str, str], ...]:
    """Return (name, version) of every pin whose marker holds for ``python_version`` on Linux.

    Raises:
        RecipeError: a line is no ``name==version`` requirement.
    """
    return tuple((pin.name, pin.version) for pin in hashed_pins(text) if pin.applies(python_version))


def marker_environment(python_version: str, machine: str | None = None) -> dict[str, str]:
    """Return the marker variables (PEP 508) of a CPython on Linux."""
    python = Version(python_version)
    environment = {
        "python_version": f"{python.major}.{python.minor}", "python_full_version": str(python),
        "implementation_name": "cpython", "platform_python_implementation": "CPython",
        "sys_platform": "linux", "platform_system": "Linux", "os_name": "posix",
    }  # fmt: skip
    return environment if machine is None else {**environment, "platform_machine": machine}


def dist_info(name: str, version: str) -> str:
    """Return the name of the ``.dist-info`` folder that an installer makes (PEP 427 escaping)."""
    return f"{name.replace('-', '_').replace('.', '_')}-{version}.dist-info"


def _refused(what: str, why: str) -> RecipeError:
    return RecipeError(what, why=why, fix="write it as name==version with --hash=sha256:…")
