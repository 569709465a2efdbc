"""Which component versions belong together, and the vendor's packages: reads ``oneapi_bundles.yaml``."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from xpubuild.frozen import frozen
from xpubuild.safe_yaml import read_yaml

_TABLE = Path(__file__).with_name("oneapi_bundles.yaml")


def parse_version(text: str) -> Version | None:
    """Return the version a folder name stands for, or None ("latest", "pytorch-gpu-dev-0.5")."""
    try:
        return Version(text)
    except InvalidVersion:
        return None


def line_of(text: str) -> str | None:
    """Return the first two numbers of a version: what oneAPI's folders are named after."""
    version = parse_version(text)
    return None if version is None else f"{version.major}.{version.minor}"


@frozen
class Bundle:
    """One row of the table. ``components`` holds full versions, None where no source states one."""

    name: str
    package: str | None
    toolkit: str | None
    torch: tuple[str, ...]
    components: Mapping[str, str | None]

    def line(self, component: str) -> str | None:
        """Return the folder version of a component in this bundle."""
        version = self.components.get(component)
        return None if version is None else line_of(version)


@frozen
class Bundles:
    """The whole table."""

    bundles: tuple[Bundle, ...]
    bundle_package: str
    component_packages: Mapping[str, str | None]

    def expected_lines(self, compiler: str, component: str) -> frozenset[str]:
        """Return the versions (two numbers) of ``component`` that go with a compiler; empty where unknown."""
        wanted = line_of(self.toolkit_compiler(compiler) or compiler)
        found = (row.line(component) for row in self.bundles if wanted and row.line("compiler") == wanted)
        return frozenset(line for line in found if line is not None)

    def names_with(self, component: str, version: str) -> tuple[str, ...]:
        """Return the bundles that hold this version (two numbers) of a component."""
        wanted = line_of(version)
        return tuple(row.name for row in self.bundles if wanted and row.line(component) == wanted)

    def toolkit_compiler(self, toolkit: str) -> str | None:
        """Return the compiler version of a toolkit whose folder name is not a version."""
        for row in self.bundles:
            if row.toolkit == toolkit:
                return row.components.get("compiler")
        return None

    def package_for(self, specifier: SpecifierSet) -> str:
        """Return the package of the newest bundle whose compiler fits, else the one without a version."""
        for row in reversed(self.bundles):
            compiler = row.components.get("compiler")
            if compiler and row.package and specifier.contains(compiler, prereleases=True):
                return row.package
        return self.bundle_package

    def component_package(self, component: str) -> str | None:
        """Return the vendor's package of one component, None where it comes with the bundle or is unknown."""
        return self.component_packages.get(component)


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@functools.cache
def load_bundles() -> Bundles:
    """Read the table that ships with xpubuild."""
    document = read_yaml(_TABLE.read_text("utf-8"))
    packages = document["packages"]
    return Bundles(
        bundles=tuple(
            Bundle(
                name=row["name"],
                package=row["package"],
                toolkit=row.get("toolkit"),
                torch=tuple(row["torch"]),
                components={name: _text(version) for name, version in row["components"].items()},
            )
            for row in document["bundles"]
        ),
        bundle_package=packages["bundle"]["name"],
        component_packages={
            name: entry["name"] if entry else None for name, entry in packages["components"].items()
        },
    )
