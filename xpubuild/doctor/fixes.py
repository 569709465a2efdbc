"""Commands for this distribution."""

from __future__ import annotations

import os
from collections.abc import Sequence

from xpubuild import distribution as systems
from xpubuild.distribution import Need, System
from xpubuild.doctor.kit import Look
from xpubuild.machine.drivers import driver_family
from xpubuild.machine.system import system_of


def distribution(look: Look) -> str:
    """Return debian, rhel or suse according to os-release, or an empty text for any other."""
    return systems.family_of((look.host.os.id, *look.host.os.id_like)) or ""


def as_root(look: Look, *commands: str) -> tuple[str, ...]:
    """Return commands that need root: with sudo in front, or unchanged if this user is root.

    In an image (``--root``) root runs them when the image is built.
    """
    if not look.live or os.geteuid() == 0:
        return commands
    return tuple(f"sudo {command}" for command in commands)


def install_need(look: Look, *needs: Need) -> tuple[str, ...]:
    """Return the commands that install what a GPU needs, with Intel's repository if it is not set up."""
    if not distribution(look):
        names = {
            family: [name for need in needs for name in systems.packages(need, System((family,)))]
            for family in _TOOLS
        }
        return install_command(look, **names)
    system = system_of(look.host.os, look.root)
    return systems.install(needs, system, sudo=_sudo(look), first_lts=first_names(look))


def lacking_here(look: Look, need: Need) -> str:
    """Return why no package of this distribution provides something; empty if one does."""
    return systems.lacking(need, system_of(look.host.os, look.root))


def lts_note(look: Look) -> str:
    """Return '; ' and which repository is for a Max, or nothing where Intel has none for this system."""
    row = systems.row_of(system_of(look.host.os, look.root))
    none = row is not None and row.get("gpu") is None
    return "" if none else "; for a Data Center GPU Max use Intel's LTS repository"


def need_note(look: Look, need: Need) -> str:
    """Return '; ' and what is to know about the packages of this distribution, or nothing."""
    shown = systems.note(need, system_of(look.host.os, look.root))
    return f"; {shown}" if shown else ""


def install_oneapi_packages(look: Look, *names: str) -> tuple[str, ...]:
    """Return the commands that install packages of oneAPI, and first Intel's repository if it is missing."""
    if not distribution(look):
        return install_command(look, debian=names, rhel=names, suse=names)
    return systems.install_oneapi(names, system_of(look.host.os, look.root), sudo=_sudo(look))


def first_names(look: Look) -> bool:
    """Whether this host has packages under the names of the first LTS, which Intel changed later.

    Rolling releases used the driver's first name with the loader's second. RPMs kept theirs.
    """
    if distribution(look) != "debian":
        return driver_family(look.host.drivers) == "lts-2350"
    names = {item.package for item in look.host.drivers}
    return "libze1" not in names and bool(names & {"intel-level-zero-gpu", "level-zero"})


def _sudo(look: Look) -> str:
    return "" if as_root(look, "") == ("",) else "sudo "


#: Family of distributions -> its package manager, and what it is called where the distribution is unknown.
_TOOLS = {"debian": ("apt-get", "Debian"), "rhel": ("dnf", "RHEL"), "suse": ("zypper", "SUSE")}


def install_command(look: Look, **names: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that install packages, named for each family of distributions: debian, rhel, suse.

    For an unknown distribution, or one without a known package, the result is a comment with the known
    names, so that pasting it has no effect.
    """
    family = distribution(look)
    if found := names.get(family):
        update = ("apt-get update",) if family == "debian" else ()
        return as_root(look, *update, f"{_TOOLS[family][0]} install -y {' '.join(found)}")
    systems: dict[str, list[str]] = {}
    for name, packages_ in names.items():
        if packages_:
            systems.setdefault(" ".join(packages_), []).append(_TOOLS[name][1])
    known = [
        f"{text} ({', '.join(who)})" if len(who) < len(_TOOLS) else text for text, who in systems.items()
    ]
    return (f"# install with your package manager: {'; '.join(known)}",) if known else ()


def remove_command(look: Look, **names: Sequence[str]) -> tuple[str, ...]:
    """Return the commands that remove packages; none where the distribution is an unknown one."""
    family = distribution(look)
    found = names.get(family)
    return as_root(look, f"{_TOOLS[family][0]} remove -y {' '.join(found)}") if found else ()
