"""Commands that install oneAPI or a missing part of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from packaging.specifiers import SpecifierSet

from xpubuild.distribution import family_of, here, install_oneapi, table
from xpubuild.errors import ToolchainError
from xpubuild.machine.oneapi_bundles import load_bundles
from xpubuild.machine.oneapi_components import Component
from xpubuild.machine.oneapi_roots import Root

#: What tells what a host without oneAPI can build.
_ON_THIS_HOST = ("xpubuild recipes matrix --here --target cpu", "xpubuild doctor --profile build")


def install_bundle(wanted: SpecifierSet) -> str:
    """Return one sentence on the package that brings a compiler meeting ``wanted``."""
    package = load_bundles().package_for(wanted)
    family = family_of(here().names)
    manager = table()["families"][family]["manager"] if family is not None else "APT, DNF or Zypper"
    return f"install {package} from Intel's {manager} repository, or pass an installation with --oneapi-root"


def install_commands(wanted: SpecifierSet) -> tuple[str, ...]:
    """Return the commands for the distribution at hand; they add Intel's repository if it is missing."""
    return install_oneapi([load_bundles().package_for(wanted)], here())


def install_component(name: str) -> str:
    """Return one sentence on where a single component comes from."""
    package = load_bundles().component_package(name)
    if package is None:
        return f"install the bundle that contains {name}: {load_bundles().bundle_package}"
    return f"install {package} (or one version of it, {package}-VERSION) from Intel's repository"


def missing_components(
    root: Root, missing: Iterable[str], versions: str, installed: Sequence[Component], folder: str
) -> ToolchainError:
    """Return the error for components that an installation lacks; ``folder`` is the version looked for."""
    names = list(missing)
    packages = [load_bundles().component_package(name) or load_bundles().bundle_package for name in names]
    return ToolchainError(
        f"oneAPI at {root.path} lacks {', '.join(names)}",
        why=f"the recipe is built with the compiler {versions} and {', '.join(names)}; looked for "
        + ", ".join(f"{name}/{folder}/env/vars.sh" for name in names)
        + " and the same names in VERSION/etc of the unified layout",
        fix="; ".join(install_component(name) for name in names),
        commands=install_oneapi(list(dict.fromkeys(packages)), here()),
        evidence={
            "root": str(root.path),
            "missing": names,
            "installed": sorted({f"{component.name} {component.version}" for component in installed}),
        },
    )


def _low_first(wanted: SpecifierSet) -> str:
    """Return a range with its lower bound first."""
    return ",".join(sorted(map(str, wanted), reverse=True))


def nothing_found(places: Iterable[tuple[str, str]], wanted: SpecifierSet) -> ToolchainError:
    """Return the error for a machine without oneAPI. ``places`` are (path, what it is)."""
    looked = list(places)
    return ToolchainError(
        "no oneAPI installation was found",
        why=f"the recipe needs the oneAPI compiler {_low_first(wanted)}; looked for setvars.sh,"
        " COMPONENT/VERSION/env/vars.sh and VERSION/oneapi-vars.sh in "
        + ", ".join(f"{path} ({origin})" for path, origin in looked),
        fix=install_bundle(wanted)
        + (
            "; without oneAPI, this host can build the same sources with --target cpu: recipes matrix "
            "--here --target cpu lists the possible releases, doctor lists other problems"
        ),
        commands=(*install_commands(wanted), *_ON_THIS_HOST),
        evidence={"searched": [path for path, _ in looked]},
    )
