"""Commands to type on the distribution at hand."""

from __future__ import annotations

import os
from collections.abc import Sequence

from xpubuild.distribution import family_of
from xpubuild.doctor.context import Context


def distribution(context: Context) -> str:
    """Return debian, rhel or suse by what os-release says, or an empty text where it is another one."""
    return family_of((context.host.os.id, *context.host.os.id_like)) or ""


def as_root(context: Context, *commands: str) -> tuple[str, ...]:
    """Return commands that need root as this user has to type them: with sudo, or as they are for root.

    In an image (``--root``) it is root who types them, when the image is made.
    """
    if not context.live or os.geteuid() == 0:
        return commands
    return tuple(f"sudo {command}" for command in commands)


def install_command(
    context: Context, *, debian: Sequence[str] = (), rhel: Sequence[str] = (), suse: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the commands that install packages, named for each family of distributions.

    On an unknown distribution, or one without a name for the package, the answer is a comment with the names
    that are known, so that it does no harm when it is pasted.
    """
    family = distribution(context)
    if family == "debian" and debian:
        return as_root(context, "apt-get update", f"apt-get install -y {' '.join(debian)}")
    if family == "rhel" and rhel:
        return as_root(context, f"dnf install -y {' '.join(rhel)}")
    if family == "suse" and suse:
        return as_root(context, f"zypper install -y {' '.join(suse)}")
    known = _named_by_system((("Debian", debian), ("RHEL", rhel), ("SUSE", suse)))
    return (f"# install with your package manager: {known}",) if known else ()


def _named_by_system(named: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the names of packages with the systems that call them so; without, where all agree."""
    systems: dict[str, list[str]] = {}
    for system, names in named:
        if names:
            systems.setdefault(" ".join(names), []).append(system)
    if len(systems) == 1 and len(next(iter(systems.values()))) == len(named):
        return next(iter(systems))
    return "; ".join(f"{names} ({', '.join(who)})" for names, who in systems.items())
