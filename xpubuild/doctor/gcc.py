"""How to get another GCC on the distribution at hand, and what to put into CC and CXX then.

Which release has which package is what the package lists of Debian and Ubuntu, and "Using GCC Toolset" in the
documentation of RHEL 8 and 9, say: a toolset is not on PATH, and its programs have no number in their names.
"""

from __future__ import annotations

from pathlib import Path

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import as_root, distribution, install_command
from xpubuild.doctor.model import Fix
from xpubuild.recipe.fits import fits

_DEBIAN = ("gcc-13", "g++-13")
_SUSE = ("gcc13", "gcc13-c++")
_TOOLSET = "gcc-toolset-13"
_TOOLSET_BIN = Path("/opt/rh", _TOOLSET, "root", "usr", "bin")
_NAMED = "export CC=gcc-13 CXX=g++-13"
_IN_TOOLSET = f"export CC={_TOOLSET_BIN}/gcc CXX={_TOOLSET_BIN}/g++"
# Releases before the first with GCC 13, by the ID of os-release(5).
_UBUNTU_WITHOUT = {"ubuntu": "<23.04", "pop": "<23.04", "linuxmint": "<22"}
_DEBIAN_WITHOUT = "<13"
# These share dnf with RHEL and have no toolset 13; neither has RHEL 10, whose own GCC is 14.
_NO_TOOLSETS = frozenset({"fedora", "amzn"})
_TOOLSET_UNTIL = "<10"


def another_gcc(context: Context) -> Fix:
    """Return how to install a GCC 13 beside the one that does not fit, and how to name it for a build."""
    family = distribution(context)
    system = context.host.os
    if family == "rhel":
        return _of_rhel(context)
    if system.id in _UBUNTU_WITHOUT and fits(system.version, _UBUNTU_WITHOUT[system.id]) == "yes":
        return _of_toolchain_ppa(context)
    if system.id == "debian" and fits(system.version, _DEBIAN_WITHOUT) == "yes":
        return Fix(
            f"Debian {system.version} has no package of GCC 13: build in a container or on a host of"
            " Debian 13 or Ubuntu 24.04, or name another GCC that the recipe allows in CC and CXX",
            (
                "apt-cache search --names-only '^g\\+\\+-[0-9]+$'   # those that there are",
                'docker run -it -v "$PWD":/src -w /src debian:13   # there: apt-get install gcc-13 g++-13',
            ),
        )
    packages = install_command(context, debian=_DEBIAN, rhel=[_TOOLSET], suse=_SUSE)
    return Fix(
        "install a GCC that the recipe allows beside it and name it in CC and CXX", (*packages, _NAMED)
    )


def _of_rhel(context: Context) -> Fix:
    system = context.host.os
    if system.id in _NO_TOOLSETS or fits(system.version, _TOOLSET_UNTIL) == "no":
        return Fix(
            f"{system.name} has no {_TOOLSET}: build in a container or on a host of RHEL 9 or one like it, or"
            " name another GCC that the recipe allows in CC and CXX",
            ("dnf list --available 'gcc*-c++'   # those that there are",),
        )
    return Fix(
        f"install {_TOOLSET} beside it and name its compilers in CC and CXX (or work in a shell of"
        f" `scl enable {_TOOLSET} bash`)",
        (*install_command(context, rhel=[_TOOLSET]), _IN_TOOLSET),
    )


def _of_toolchain_ppa(context: Context) -> Fix:
    system = context.host.os
    return Fix(
        f"{system.name} has no package of GCC 13: take it from Ubuntu's toolchain PPA"
        " (ppa:ubuntu-toolchain-r/test) or build on a newer release, and name it in CC and CXX",
        (
            *install_command(context, debian=["software-properties-common"]),
            *as_root(context, "add-apt-repository -y ppa:ubuntu-toolchain-r/test"),
            *install_command(context, debian=_DEBIAN),
            _NAMED,
        ),
    )
