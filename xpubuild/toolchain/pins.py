"""Reads a hashed requirements file: which distributions it installs for one Python. Pure."""

from __future__ import annotations

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from xpubuild.errors import RecipeError


def pinned(text: str, python_version: str) -> tuple[tuple[str, str], ...]:
    """Return (name, version) of every pin whose marker holds for ``python_version`` on Linux.

    Raises:
        RecipeError: a line is no ``name==version`` requirement.
    """
    python = Version(python_version)
    environment = {
        "python_version": f"{python.major}.{python.minor}",
        "python_full_version": str(python),
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "os_name": "posix",
    }
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        entry = line.partition(" #")[0].partition("--hash")[0].strip()
        if not entry or entry.startswith(("#", "-")):
            continue
        requirement = _requirement(entry)
        if requirement.marker is None or requirement.marker.evaluate(environment):
            found.append((requirement.name, _exact(requirement)))
    return tuple(found)


def dist_info(name: str, version: str) -> str:
    """Return the name of the ``.dist-info`` folder that an installer makes (PEP 427 escaping)."""
    return f"{name.replace('-', '_').replace('.', '_')}-{version}.dist-info"


def _requirement(entry: str) -> Requirement:
    try:
        return Requirement(entry)
    except InvalidRequirement as error:
        raise RecipeError(
            f"'{entry}' in a requirements file is not a requirement",
            why=str(error),
            fix="write it as name==version with --hash=sha256:…",
        ) from error


def _exact(requirement: Requirement) -> str:
    pins = [item.version for item in requirement.specifier if item.operator in ("==", "===")]
    if len(pins) != 1:
        raise RecipeError(
            f"'{requirement}' in a requirements file is not an exact pin",
            why="what is installed must be known beforehand",
            fix="write it as name==version with --hash=sha256:…",
        )
    return pins[0]
