"""The commands that install packages, on listed distributions and on others; codes of errors and limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from support.data_files import dumped
from xpubuild import distribution, errors, safe_yaml, untrusted
from xpubuild.distribution import (
    Need,
    System,
    family_of,
    install,
    install_line,
    install_oneapi,
    note,
    packages,
)
from xpubuild.documents import plain

_SYSTEMS: Mapping[str, System] = {
    "Debian 12": System(("debian",), "12"),
    "Debian 13": System(("Debian",), "13"),
    "Ubuntu 22.04": System(("ubuntu", "debian"), "22.04"),
    "Ubuntu 24.04": System(("ubuntu", "debian"), "24.04"),
    "Ubuntu 26.04": System(("ubuntu", "debian"), "26.04"),
    "Mint": System(("linuxmint", "ubuntu"), "21"),
    "RHEL 8": System(("rhel", "fedora"), "8.10"),
    "RHEL 9.0": System(("rhel", "fedora"), "9.0"),
    "Rocky 9": System(("rocky", "rhel", "centos", "fedora"), "9.5"),
    "SLES 15": System(("sles", "suse"), "15.7"),
    "SLES 15.9": System(("sles", "suse"), "15.9"),
    "Arch": System(("arch",)),
    "another": System(("another",), "1"),
    "unknown": System(),
}
_NEEDS: tuple[Need, ...] = get_args(Need)


def _of(system: System) -> dict[str, Any]:
    told: dict[str, Any] = {"family": family_of(system.names)}
    told["packages"] = {need: packages(need, system, python="3.11") for need in _NEEDS}
    first = {need: packages(need, system, first_lts=True) for need in _NEEDS}
    told["first LTS"] = {need: names for need, names in first.items() if names != packages(need, system)}
    told["notes"] = {need: text for need in _NEEDS if (text := note(need, system))}
    told["lines"] = {need: install_line(need, system) for need in ("compiler", "driver")}
    told["all"] = install(_NEEDS, system, sudo="", python="3.12")
    told["all of the first LTS"] = install(_NEEDS, system, first_lts=True)
    told["without a repository"] = install(("compiler", "python-headers"), system)
    told["oneAPI"] = install_oneapi(("one", "two"), system)
    return told


def _distributions() -> str:
    whole = {name: _of(system) for name, system in _SYSTEMS.items()}
    return dumped(plain({**whole, "lists": distribution.REPOSITORY_LISTS}))


def _constants() -> str:
    kinds = {code: kind.__name__ for code, kind in errors.EXIT_CODES.items()}
    known = {
        "exit codes": kinds, "codes": {code: kind.__name__ for code, kind in errors._BY_CODE.items()},
        "untrusted": {
            "bytes": untrusted.MOST_BYTES, "recipe": untrusted.MOST_RECIPE_BYTES,
            "largest": untrusted.LARGEST, "digits": untrusted._MOST_DIGITS,
        },
        "yaml": {
            "levels": safe_yaml._MOST_LEVELS, "number": safe_yaml._LONGEST_NUMBER, "shown": safe_yaml._SHOWN,
        },
    }  # fmt: skip
    return dumped(known)


TEXTS: dict[str, Callable[[], str]] = {
    "distributions": _distributions,
    "errors-and-limits": _constants,
}
