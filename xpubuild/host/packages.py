"""The distribution package that provides a missing file, and the command that installs it."""

from __future__ import annotations

from typing import Literal

from xpubuild.host.system import OsFacts

Need = Literal["compiler", "python-headers", "ocloc"]

_FAMILY_OF = {
    "debian": "debian", "ubuntu": "debian",
    "rhel": "fedora", "fedora": "fedora", "centos": "fedora",
    "suse": "suse", "opensuse": "suse", "sles": "suse",
    "arch": "arch",
}  # fmt: skip
_INSTALL = {
    "debian": "sudo apt-get install",
    "fedora": "sudo dnf install",
    "suse": "sudo zypper install",
    "arch": "sudo pacman -S",
}
_LABEL = {"debian": "Debian, Ubuntu", "fedora": "Fedora, RHEL", "suse": "SUSE", "arch": "Arch"}


def _packages(need: Need, python: str) -> dict[str, str]:
    if need == "compiler":
        return {"debian": "gcc g++", "fedora": "gcc gcc-c++", "suse": "gcc gcc-c++", "arch": "gcc"}
    if need == "ocloc":
        # Debian 12 and Intel's first LTS have it in intel-opencl-icd, Intel's later repositories apart.
        theirs = "intel-ocloc (intel-opencl-icd in Debian and in LTS 2350)"
        return {
            "debian": theirs,
            "fedora": "intel-ocloc",
            "suse": "intel-ocloc",
            "arch": "intel-compute-runtime",
        }
    short = python.replace(".", "")
    return {
        "debian": f"python{python}-dev",
        "fedora": f"python{python}-devel (python3-devel for the system's own Python)",
        "suse": f"python{short}-devel (python3-devel for the system's own Python)",
        "arch": "python",
    }


def install_commands(need: Need, system: OsFacts, python: str = "3") -> tuple[str, ...]:
    """Return the line to type on this distribution; none where it is not a known one.

    ``python`` is the version ('3.11') whose headers are missing.
    """
    family = _family(system)
    if family is None:
        return ()
    package = _packages(need, python)[family].partition(" (")[0]
    return (f"{_INSTALL[family]} {package}",)


def package_names(need: Need, system: OsFacts, python: str = "3") -> str:
    """Return the package for this distribution in words, or for all known ones where it is none of them."""
    names = _packages(need, python)
    family = _family(system)
    if family is not None:
        return names[family]
    return ", ".join(f"{name} ({_LABEL[key]})" for key, name in names.items())


def _family(system: OsFacts) -> str | None:
    for name in (system.id, *system.id_like):
        for key, family in _FAMILY_OF.items():
            if name == key or name.startswith(f"{key}-"):
                return family
    return None
