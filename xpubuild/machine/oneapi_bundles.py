"""Which component versions belong together, and how to install them: reads ``oneapi_bundles.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from xpubuild.distribution import family_of, install_oneapi, table
from xpubuild.errors import ToolchainError
from xpubuild.machine.system import os_facts, system_of
from xpubuild.machine.versions import line_of
from xpubuild.safe_yaml import read_yaml

COMPILER = "compiler"
#: What shows what a host without oneAPI can build.
_ON_THIS_HOST = ("xpubuild recipes matrix --here --target cpu", "xpubuild doctor --profile build")


@functools.cache
def _table() -> Mapping[str, Any]:
    text = Path(__file__).with_name("oneapi_bundles.yaml").read_text("utf-8")
    document: Mapping[str, Any] = read_yaml(text)
    return document


def _line(bundle: Mapping[str, Any], component: str) -> str | None:
    """Return the folder version of a component in a bundle, None where no source states it."""
    version = bundle["components"].get(component)
    return None if version is None else line_of(str(version))


def compiler_version(folder: str) -> str:
    """Return the compiler's version for a folder's name: a toolkit's folder has another name."""
    rows = (row for row in _table()["bundles"] if row.get("toolkit") == folder)
    return next((str(row["components"][COMPILER]) for row in rows), folder)


def expected_lines(compiler: str, component: str) -> frozenset[str]:
    """Return the versions (two numbers) of a component that belong to a compiler; empty where unknown."""
    wanted = line_of(compiler_version(compiler))
    rows = (row for row in _table()["bundles"] if wanted and _line(row, COMPILER) == wanted)
    return frozenset(line for row in rows if (line := _line(row, component)) is not None)


def bundles_with(component: str, version: str) -> tuple[str, ...]:
    """Return the names of the bundles that hold this version (two numbers) of a component."""
    wanted = line_of(version)
    return tuple(row["name"] for row in _table()["bundles"] if wanted and _line(row, component) == wanted)


def package_for(wanted: str) -> str:
    """Return the package of the newest bundle whose compiler fits, else the one without a version."""
    specifier = SpecifierSet(wanted)
    for row in reversed(_table()["bundles"]):
        compiler = row["components"].get(COMPILER)
        if compiler and row["package"] and specifier.contains(str(compiler), prereleases=True):
            return str(row["package"])
    return str(_table()["packages"]["bundle"]["name"])


def component_package(component: str) -> str:
    """Return the vendor's package of one component, that of the bundle for those that have none."""
    packages = _table()["packages"]
    return str((packages["components"].get(component) or packages["bundle"])["name"])


def install_bundle(wanted: str) -> str:
    """Return one sentence on the package that has a compiler meeting ``wanted``."""
    family = family_of(system_of(os_facts()).names)
    manager = table()["families"][family]["manager"] if family is not None else "APT, DNF or Zypper"
    return (
        f"install {package_for(wanted)} from Intel's {manager} repository, or pass an installation with "
        "--oneapi-root"
    )


def install_commands(wanted: str) -> tuple[str, ...]:
    """Return the commands for the distribution at hand; they add Intel's repository if it is missing."""
    return install_oneapi([package_for(wanted)], system_of(os_facts()))


def install_components(names: Iterable[str]) -> tuple[str, ...]:
    """Return the commands that install single components."""
    return install_oneapi(list(dict.fromkeys(map(component_package, names))), system_of(os_facts()))


def nothing_found(places: Iterable[tuple[Path, str]], wanted: str) -> ToolchainError:
    """Return the error for a machine without oneAPI. ``places`` are (path, what it is)."""
    looked = list(places)
    low_first = ",".join(sorted(map(str, SpecifierSet(wanted)), reverse=True))
    return ToolchainError(
        "no oneAPI installation was found",
        why=f"the recipe needs the oneAPI compiler {low_first}; looked for setvars.sh,"
        " COMPONENT/VERSION/env/vars.sh and VERSION/oneapi-vars.sh in "
        + ", ".join(f"{path} ({origin})" for path, origin in looked),
        fix=install_bundle(wanted)
        + (
            "; without oneAPI, this host can build the same sources with --target cpu: recipes matrix "
            "--here --target cpu lists the possible releases, doctor lists other problems"
        ),
        commands=(*install_commands(wanted), *_ON_THIS_HOST),
        evidence={"searched": [str(path) for path, _ in looked]},
    )
