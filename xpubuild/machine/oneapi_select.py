"""Selects the installed versions for a recipe: the constraint decides the compiler, the bundle table the
rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from xpubuild.errors import RecipeError, ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine import oneapi_bundles as bundles
from xpubuild.machine.oneapi_bundles import COMPILER
from xpubuild.machine.oneapi_installed import LATEST, Component, Installation
from xpubuild.machine.versions import fits, line_of, parse

Mode = Literal["components", "setvars", "unified"]


@frozen
class OneapiNeeds:
    """What a recipe needs of oneAPI.

    ``versions`` is a specifier on the compiler's version (">=2025.1,<2025.2"); ``components`` are names in
    the order in which their scripts are to run. ``beside_compiler`` are components that the build needs
    without what their scripts set; ``optional`` are sourced after the others where they are installed.
    """

    versions: str
    components: tuple[str, ...]
    beside_compiler: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@frozen
class Selection:
    """The chosen components in the order of the needs, and the way they are to be sourced.

    The scripts of those in ``beside`` are not run.
    """

    place: Installation
    mode: Mode
    components: tuple[Component, ...]
    warnings: tuple[str, ...]
    beside: tuple[Component, ...] = ()

    def get(self, name: str) -> Component | None:
        """Return the chosen component of this name."""
        return next((component for component in self.components if component.name == name), None)


def select_first(places: Sequence[Installation], needs: OneapiNeeds, mode: Mode) -> Selection:
    """Return the selection of the first installation that has all.

    Raises:
        UnsatisfiableError, ToolchainError, RecipeError: no installation has; a wrong version explains more
            than a missing component.
    """
    failures: list[XpuBuildError] = []
    for place in places:
        try:
            return select(place, needs, mode)
        except (ToolchainError, UnsatisfiableError) as error:
            failures.append(error)
    if not failures:
        raise ToolchainError("no oneAPI installation was found")
    best = next((error for error in failures if isinstance(error, UnsatisfiableError)), failures[0])
    if len(failures) > 1:
        best.evidence["also_tried"] = [error.what for error in failures if error is not best]
    raise best


def select(place: Installation, needs: OneapiNeeds, mode: Mode) -> Selection:
    """Choose one version of each needed component of one installation.

    The compiler: what ``latest`` leads to if it meets the constraint, else the newest that does. The others:
    the version of the compiler's bundle where it is installed, else ``latest``, with a warning; beside the
    compiler that of its bundle alone.

    Raises:
        ToolchainError: a needed component is not installed.
        UnsatisfiableError: it is, in versions that the recipe rules out.
        RecipeError: no component is named.
    """
    if not needs.components:
        raise RecipeError(
            "the recipe needs oneAPI, but lists no component of it",
            why="only the scripts of listed components are run",
            fix='list them in the order they should run, for example "components: [compiler, pti, umf]"',
        )
    used, compilers = _compilers(place, mode)
    wanted = COMPILER in needs.components and compilers
    compiler = _choose_compiler(place, compilers, needs, used) if wanted else None
    chosen: list[Component] = []
    missing: list[str] = []
    for name in (*needs.components, *needs.optional):
        found = [compiler] if name == COMPILER and compiler else _eligible(place, compiler, used, name)
        if found and (name != COMPILER or compiler):
            expected = bundles.expected_lines(compiler.version, name) if compiler else frozenset()
            chosen.append(_preferred([c for c in found if line_of(c.version) in expected] or found))
        elif name in needs.components:
            missing.append(name)
    if missing:
        raise _lacks(place, missing, needs, LATEST if used == "setvars" else "VERSION")
    beside: tuple[Component, ...] = ()
    if compiler is not None and compiler.layout == "component":
        beside = tuple(_beside(place, needs, compiler, used, name) for name in needs.beside_compiler)
    warnings = mixed_stack(chosen)
    if used != mode:
        warnings += (f"{place.path} is sourced through oneapi-vars.sh: its component scripts need it",)
    return Selection(place, used, tuple(chosen), warnings, beside)


def _preferred(found: Iterable[Component]) -> Component:
    """Return what ``latest`` leads to, else the newest."""
    return max(found, key=lambda component: (component.is_latest, component.sort_key()))


def _compilers(place: Installation, mode: Mode) -> tuple[Mode, list[Component]]:
    """Return how the installation can be sourced, and the compilers that can be then."""
    compilers = [component for component in place.components if component.name == COMPILER]
    single = [component for component in compilers if component.layout == "component"]
    unified = [component for component in compilers if component.layout == "unified"]
    if mode == "setvars":
        return mode, [component for component in single if component.is_latest]
    if mode == "unified" or place.toolkit is not None or not single:
        return ("unified" if unified else mode), unified
    return mode, single


def _choose_compiler(
    place: Installation, found: Sequence[Component], needs: OneapiNeeds, mode: Mode
) -> Component:
    versions = {item.path: bundles.compiler_version(item.version) for item in found}
    fitting = [item for item in found if fits(versions[item.path], needs.versions) != "no"]
    if fitting:
        # A folder whose name is no version may hold any.
        return _preferred([item for item in fitting if parse(versions[item.path])] or fitting)
    raise UnsatisfiableError(
        f"the oneAPI compiler at {place.path} is {' and '.join(c.version for c in found)},"
        f" the recipe needs {needs.versions}",
        why="setvars.sh uses the version of the link 'latest'"
        if mode == "setvars"
        else "no installed version matches the recipe's constraint",
        fix=bundles.install_bundle(needs.versions) + "; several versions can be installed in parallel",
        commands=bundles.install_commands(needs.versions),
        evidence={"root": str(place.path), "installed": [c.version for c in found], "wanted": needs.versions},
    )


def _eligible(place: Installation, compiler: Component | None, mode: Mode, name: str) -> list[Component]:
    found = [component for component in place.components if component.name == name]
    single = [component for component in found if component.layout == "component"]
    if mode == "unified" and compiler is not None:
        # PTI was shipped beside the unified toolkit, in the component layout (facts: gpu-dev 0.5).
        return [component for component in found if component.path == compiler.path] or single
    return [component for component in single if component.is_latest] if mode == "setvars" else single


def _lacks(place: Installation, missing: Sequence[str], needs: OneapiNeeds, folder: str) -> ToolchainError:
    """Return the error for components that are not installed; ``folder`` is the version looked for."""
    names = ", ".join(missing)
    return ToolchainError(
        f"oneAPI at {place.path} lacks {names}",
        why=f"the recipe is built with the compiler {needs.versions} and {names}; looked for "
        + ", ".join(f"{name}/{folder}/env/vars.sh" for name in missing)
        + " and the same names in VERSION/etc of the unified layout",
        fix=f"install {', '.join(dict.fromkeys(map(bundles.component_package, missing)))} (or one version of"
        " it, PACKAGE-VERSION) from Intel's repository",
        commands=bundles.install_components(missing),
        evidence={
            "root": str(place.path),
            "missing": list(missing),
            "installed": sorted({f"{component.name} {component.version}" for component in place.components}),
        },
    )


def _beside(place: Installation, needs: OneapiNeeds, compiler: Component, mode: Mode, name: str) -> Component:
    """Return the version of a component that is of the compiler's bundle; no other is used with it."""
    found = _eligible(place, compiler, mode, name)
    if not found:
        raise _lacks(place, [name], needs, LATEST if mode == "setvars" else "VERSION")
    expected = bundles.expected_lines(compiler.version, name)
    # A folder whose name is no version may hold any.
    same = [item for item in found if line_of(item.version) in expected] or [
        item for item in found if not expected or line_of(item.version) is None
    ]
    if same:
        return _preferred(same)
    installed, wanted = sorted(item.version for item in found), " or ".join(sorted(expected))
    raise ToolchainError(
        f"the build would use {name} {' or '.join(installed)} with the compiler {compiler.version}",
        why="two versions of oneAPI in one process have two SYCL runtimes;"
        f" the compiler's {name} is {wanted}"
        + (", and setvars.sh takes 'latest'" if mode == "setvars" else ""),
        fix=f"install {name} {wanted}; several versions can be installed in parallel",
        commands=bundles.install_components([name]),
        evidence={"root": str(place.path), "expected": sorted(expected), "installed": installed},
    )


def mixed_stack(components: Iterable[Component]) -> tuple[str, ...]:
    """Return one warning per component that does not belong to the compiler's bundle, as far as known."""
    chosen = tuple(components)
    compiler = next((component for component in chosen if component.name == COMPILER), None)
    if compiler is None:
        return ()
    warnings = []
    for component in chosen:
        expected = bundles.expected_lines(compiler.version, component.name)
        # In the unified layout a component's own version is often not known, only its toolkit's.
        known = component.layout == "component" or component.version != component.path.name
        if not expected or not known or line_of(component.version) in (None, *expected):
            continue
        owners = bundles.bundles_with(component.name, component.version)
        warnings.append(
            f"compiler {compiler.version} is used with {component.name} {component.version}, expected "
            f"{' or '.join(sorted(expected))}"
            + (f"; {component.version} belongs to {' or '.join(owners)}" if owners else "")
        )
    return tuple(warnings)
