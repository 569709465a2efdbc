"""The operating system: distribution, kernel, C library, and whether this is a container."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from xpubuild.distribution import (
    REPOSITORY_LISTS,
    Need,
    System,
    active_lines,
    family_of,
    install,
    packages,
    table,
)
from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, entries, exists, read_text

_MARKERS = (
    (".dockerenv", "docker"),
    ("run/.containerenv", "podman"),
    (".singularity.d", "apptainer"),
)
_CGROUP_WORDS = (("kubepods", "kubernetes"), ("docker", "docker"), ("libpod", "podman"), ("lxc", "lxc"))


@frozen
class OsFacts:
    """``id``, ``id_like``, ``version`` and ``name`` as os-release(5) has them; ``libc`` as 'glibc 2.36'.

    ``container`` is docker, podman, kubernetes, lxc, apptainer, wsl, another name that systemd gave, or none.
    """

    id: str = UNKNOWN
    id_like: tuple[str, ...] = ()
    version: str = UNKNOWN
    name: str = UNKNOWN
    kernel: str = UNKNOWN
    machine: str = UNKNOWN
    libc: str = UNKNOWN
    container: str = UNKNOWN


def os_facts(root: Path = LIVE_ROOT) -> OsFacts:
    """Return what can be read below ``root``; what only the running kernel knows stays unknown elsewhere."""
    release = _os_release(root)
    live = root == LIVE_ROOT
    kernel = read_text(root / "proc/sys/kernel/osrelease", root) or (os.uname().release if live else UNKNOWN)
    return OsFacts(
        id=release.get("ID", UNKNOWN),
        id_like=tuple(release.get("ID_LIKE", "").split()),
        version=release.get("VERSION_ID", UNKNOWN),
        name=release.get("PRETTY_NAME", release.get("NAME", UNKNOWN)),
        kernel=kernel,
        machine=os.uname().machine if live else UNKNOWN,
        libc=_libc() if live else UNKNOWN,
        container=_container(root, kernel),
    )


def _os_release(root: Path) -> dict[str, str]:
    places = (root / "etc/os-release", root / "usr/lib/os-release")
    text = next((text for place in places if (text := read_text(place, root))), "")
    found: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.lstrip().startswith("#"):
            try:
                found[name.strip()] = " ".join(shlex.split(value))
            except ValueError:  # an unbalanced quote in somebody's own file
                found[name.strip()] = value.strip()
    return found


def _libc() -> str:
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or UNKNOWN
    except (ValueError, OSError):  # not the GNU C library
        return UNKNOWN


def _container(root: Path, kernel: str) -> str:
    for marker, name in _MARKERS:
        if exists(root / marker, root):
            return name
    shown = read_text(root / "run/systemd/container", root)
    if shown:
        return shown
    groups = read_text(root / "proc/self/cgroup", root)
    for word, name in _CGROUP_WORDS:
        if word in (groups or ""):
            return name
    if "microsoft" in kernel.lower():
        return "wsl"
    return UNKNOWN if groups is None else "none"


def system_of(facts: OsFacts, root: Path = LIVE_ROOT) -> System:
    """Return the system with the package repositories that are set up on it."""
    text = "\n".join(
        read_text(path, root) or ""
        for place in map(Path, REPOSITORY_LISTS)
        for path in (entries(root / place.parent, root) if "*" in place.name else (root / place,))
        if path.match(place.name)
    )
    return System((facts.id, *facts.id_like), facts.version, active_lines(text))


def install_commands(need: Need, system: OsFacts, python: str = "3") -> tuple[str, ...]:
    """Return the lines to type on this distribution; none where it is not a known one.

    ``python`` is the version ('3.11') whose headers are missing.
    """
    return install((need,), system_of(system), python=python)


def package_names(need: Need, system: OsFacts, python: str = "3") -> str:
    """Return the package for this distribution in words, or for all known ones where it is none of them."""
    families = table()["families"]
    family = family_of((system.id, *system.id_like))
    if family is not None:
        also = families[family].get("also", {}).get(need, "")
        return f"{' '.join(packages(need, system_of(system), python=python))}{also}"
    shown = []
    for name, row in families.items():
        brought = " ".join(packages(need, System((name,)), python=python))
        shown.append(f"{brought}{row.get('also', {}).get(need, '')} ({row['label']})")
    return ", ".join(shown)
