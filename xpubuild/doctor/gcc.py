"""How to install another GCC on this distribution, and how to set CC and CXX.

Which release has which package is what the package lists of Debian and Ubuntu, and "Using GCC Toolset" in the
documentation of RHEL 8 and 9, say: a toolset is not on PATH, and its programs have no number in their names.
"""

from __future__ import annotations

from xpubuild.doctor.fixes import as_root, distribution, install_command
from xpubuild.doctor.kit import Fix, Look, todo
from xpubuild.machine.versions import fits

_DEBIAN = ("gcc-13", "g++-13")
_SUSE = ("gcc13", "gcc13-c++")
_TOOLSET = "gcc-toolset-13"
_BIN = f"/opt/rh/{_TOOLSET}/root/usr/bin"
_NAMED = "export CC=gcc-13 CXX=g++-13"
_OTHER = "or set CC and CXX to another GCC that the recipe allows"
# Releases before the first with GCC 13, by the ID of os-release(5).
_UBUNTU_WITHOUT = {"ubuntu": "<23.04", "pop": "<23.04", "linuxmint": "<22"}
_DEBIAN_WITHOUT = "<13"
# These share dnf with RHEL and have no toolset 13; neither has RHEL 10, whose own GCC is 14.
_NO_TOOLSETS = frozenset({"fedora", "amzn"})
_TOOLSET_UNTIL = "<10"


def another_gcc(look: Look) -> Fix:
    """Return how to install a GCC 13 next to the incompatible one, and how to select it for a build."""
    system = look.host.os
    if distribution(look) == "rhel":
        return _of_rhel(look)
    if system.id in _UBUNTU_WITHOUT and fits(system.version, _UBUNTU_WITHOUT[system.id]) == "yes":
        return todo(
            f"{system.name} has no package of GCC 13: install it from Ubuntu's toolchain PPA"
            " (ppa:ubuntu-toolchain-r/test) or build on a newer release, and set CC and CXX to it",
            *install_command(look, debian=["software-properties-common"]),
            *as_root(look, "add-apt-repository -y ppa:ubuntu-toolchain-r/test"),
            *install_command(look, debian=_DEBIAN),
            _NAMED,
        )
    if system.id == "debian" and fits(system.version, _DEBIAN_WITHOUT) == "yes":
        return todo(
            f"Debian {system.version} has no package of GCC 13: build in a container or on a host with"
            f" Debian 13 or Ubuntu 24.04, {_OTHER}",
            "apt-cache search --names-only '^g\\+\\+-[0-9]+$'   # lists the available versions",
            'docker run -it -v "$PWD":/src -w /src debian:13   # in it: apt-get install gcc-13 g++-13',
        )
    packages = install_command(look, debian=_DEBIAN, rhel=[_TOOLSET], suse=_SUSE)
    summary = "install a GCC that the recipe allows next to it and set CC and CXX to it"
    return todo(summary, *packages, _NAMED)


def _of_rhel(look: Look) -> Fix:
    system = look.host.os
    if system.id in _NO_TOOLSETS or fits(system.version, _TOOLSET_UNTIL) == "no":
        summary = f"{system.name} has no {_TOOLSET}: build in a container or on a host with RHEL 9 or a"
        line = "dnf list --available 'gcc*-c++'   # lists the available versions"
        return todo(f"{summary} compatible one, {_OTHER}", line)
    summary = f"install {_TOOLSET} next to it and set CC and CXX to its compilers (or use a shell started by"
    lines = install_command(look, rhel=[_TOOLSET])
    return todo(f"{summary} `scl enable {_TOOLSET} bash`)", *lines, f"export CC={_BIN}/gcc CXX={_BIN}/g++")
