"""The family of Linux distributions that a system belongs to.

Imports no other module of xpubuild, so every package can use it.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable
from typing import Literal

Family = Literal["debian", "rhel", "suse"]

# Names of os-release(5), the ID and each of ID_LIKE; the first that is known decides.
_DEBIAN = frozenset({"debian", "ubuntu", "linuxmint", "pop"})
_RHEL = frozenset({"rhel", "fedora", "centos", "rocky", "almalinux", "ol", "amzn"})
_SUSE = frozenset({"suse", "opensuse", "sles", "sle_hpc", "opensuse-leap", "opensuse-tumbleweed"})
_FAMILIES: tuple[tuple[Family, frozenset[str]], ...] = (("debian", _DEBIAN), ("rhel", _RHEL), ("suse", _SUSE))


def family_of(names: Iterable[str]) -> Family | None:
    """Return the family by the ID and the ID_LIKE of os-release, or None where it is another one."""
    for name in names:
        for family, known in _FAMILIES:
            if name.lower() in known:
                return family
    return None


def names_here() -> tuple[str, ...]:
    """Return ID and ID_LIKE of the running system; nothing where it has no os-release."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return ()
    return (release.get("ID", ""), *release.get("ID_LIKE", "").split())
