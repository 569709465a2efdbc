"""Linux distributions: their family, Intel's repositories for them, the commands that install packages there.

Reads ``distributions.yaml``. Stands below all packages, so that doctor, the errors of an install and explain
name the same packages.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

Family = Literal["debian", "rhel", "suse", "arch"]
Need = Literal[
    "compiler", "python-headers", "driver", "loader", "recent-loader", "opencl", "ocloc",
    "level-zero-headers", "opencl-headers", "kernel-module", "firmware",
]  # fmt: skip
_TABLE = Path(__file__).with_name("distributions.yaml")
#: What the GPU repository provides; everything else is in the distribution's own or in oneAPI's.
_OF_GPU = frozenset({
    "driver", "loader", "recent-loader", "opencl", "ocloc", "level-zero-headers", "kernel-module", "firmware",
})  # fmt: skip
#: The files that say which package repositories are set up.
REPOSITORY_LISTS = (
    "etc/apt/sources.list", "etc/apt/sources.list.d/*.list", "etc/apt/sources.list.d/*.sources",
    "etc/yum.repos.d/*.repo", "etc/zypp/repos.d/*.repo",
)  # fmt: skip
#: The driver families of Intel's repositories as their addresses have them.
_STREAM, _FIRST_STREAM = "2523", "2350"
NOT_TRIED = "not tried here"


@frozen
class System:
    """``names``: ID and ID_LIKE of os-release; ``repositories``: lines that set up package repositories."""

    names: tuple[str, ...] = ()
    version: str = ""
    repositories: str = ""


#: Of a machine that nothing is known of.
UNKNOWN_SYSTEM = System()


@functools.cache
def table() -> Mapping[str, Any]:
    """Return ``distributions.yaml``."""
    document: Mapping[str, Any] = read_yaml(_TABLE.read_text("utf-8"))
    return document


def family_of(names: Iterable[str]) -> Family | None:
    """Return the family by the ID and the ID_LIKE of os-release, or None where it is another one."""
    known: dict[str, Family] = {
        name: family for family, row in table()["families"].items() for name in row["names"]
    }
    return next((known[name.lower()] for name in names if name.lower() in known), None)


def active_lines(text: str) -> str:
    """Return the lines of package lists that are no comments."""
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def row_of(system: System) -> Mapping[str, Any] | None:
    """Return the row of a system that is listed with its version."""
    name = system.names[0].lower() if system.names else ""
    for row in table()["systems"]:
        wanted: str = row["version"]
        if name in row["ids"] and (not wanted or f"{system.version}.".startswith(f"{wanted}.")):
            found: Mapping[str, Any] = row
            return found
    return None


def packages(need: Need, system: System, *, python: str = "3", first_lts: bool = False) -> tuple[str, ...]:
    """Return the packages that provide something; empty where the system is unknown or has none.

    ``python`` is the version ('3.11') whose headers are meant. ``first_lts`` takes the names of the first LTS
    driver.
    """
    family, row = family_of(system.names), row_of(system) or {}
    if family is None or need in row.get("lacks", {}):
        return ()
    shared = table()["families"][family]
    names = row.get("needs", {}).get(need) or shared["needs"].get(need, ())
    renamed = shared.get("first_lts", {}) if first_lts else {}
    filled = (name.format(python=python, joined=python.replace(".", "")) for name in names)
    return tuple(dict.fromkeys(renamed.get(name, name) for name in filled))


def lacking(need: Need, system: System) -> str:
    """Return why no package provides something on a system; empty if one does."""
    return str((row_of(system) or {}).get("lacks", {}).get(need, ""))


def note(need: Need, system: System) -> str:
    """Return what is to know about the packages, or nothing."""
    return lacking(need, system) or str((row_of(system) or {}).get("notes", {}).get(need, ""))


def install(
    needs: Sequence[Need], system: System, *, sudo: str = "sudo ", python: str = "3", first_lts: bool = False
) -> tuple[str, ...]:
    """Return the commands for something by its need; a comment with the reason if no package provides it."""
    reasons = dict.fromkeys(f"# {reason}" for need in needs if (reason := lacking(need, system)))
    found = [packages(need, system, python=python, first_lts=first_lts) for need in needs]
    names = tuple(dict.fromkeys(name for some in found for name in some))
    repository = (row_of(system) or {}).get("gpu") if _OF_GPU & {*needs} else None
    stream = _FIRST_STREAM if first_lts else _STREAM
    return (*reasons, *_commands(names, system, repository, sudo=sudo, stream=stream))


def install_line(need: Need, system: System) -> str:
    """Return the commands for something as one line, or nothing if no package provides it."""
    if lacking(need, system):
        return ""
    return " && ".join(line for line in install((need,), system) if not line.startswith("#"))


def install_oneapi(names: Sequence[str], system: System, *, sudo: str = "sudo ") -> tuple[str, ...]:
    """Return the commands for packages of oneAPI; every manager's line where the distribution is unknown."""
    families = table()["families"]
    known = families.get(family_of(system.names), {}).get("oneapi")
    if known is None:
        lines = [row["install"] for row in families.values() if row.get("oneapi")]
        return tuple(f"{sudo}{line} {' '.join(names)}" for line in lines)
    return _commands(names, system, known, sudo=sudo)


def _commands(
    names: Sequence[str], system: System, repository: str | None, *, sudo: str, stream: str = _STREAM
) -> tuple[str, ...]:
    family = family_of(system.names)
    if family is None or not names:
        return ()
    row = table()["families"][family]
    added = _added(repository, system, sudo=sudo, stream=stream) if repository else ()
    refreshed = (f"{sudo}{row['refresh']}",) if "refresh" in row else ()
    return (*added, *refreshed, f"{sudo}{row['install']} {' '.join(names)}")


def _added(repository: str, system: System, *, sudo: str, stream: str) -> tuple[str, ...]:
    """Return the commands that add a repository and its key; none where it is set up."""
    entry = table()["repositories"][repository]
    if entry["known_by"] in system.repositories:
        return ()
    row = row_of(system) or {}
    known = row.get("gpu_versions", {}).get("lts" if stream == _FIRST_STREAM else "lts2", ())
    version = _nearest(system.version, known)
    values = {
        "sudo": sudo, "codename": row.get("codename", ""), "stream": stream,
        "version": version, "sp": version.replace(".", "sp"),
    }  # fmt: skip
    page = table()["sources"][entry["sources"][0]]
    by_version = any("{version}" in line or "{sp}" in line for line in entry["commands"])
    missing = by_version and known and version != system.version
    other = f", which has no folder for {system.version}" if missing else ""
    return (
        f"# {entry['title']}{other}, {NOT_TRIED}; see {page}",
        *(line.format(**values) for line in entry["commands"]),
    )


def _nearest(version: str, known: Sequence[str]) -> str:
    """Return the newest folder of a repository that is not newer than the system, else the oldest."""
    if not known:
        return version
    older = [item for item in known if _numbers(item) <= _numbers(version)]
    return older[-1] if older else known[0]


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
