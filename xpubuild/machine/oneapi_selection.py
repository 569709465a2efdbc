"""Selects the installed versions for a recipe: the constraint decides the compiler, the bundle table the
rest."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Literal

from xpubuild.errors import RecipeError, ToolchainError, UnsatisfiableError
from xpubuild.frozen import frozen
from xpubuild.machine import oneapi_advice as advice
from xpubuild.machine.oneapi_bundles import line_of, load_bundles
from xpubuild.machine.oneapi_components import COMPILER, LATEST, Component, latest_drift
from xpubuild.machine.oneapi_constraint import may_satisfy, specifier
from xpubuild.machine.oneapi_finding import Finding
from xpubuild.machine.oneapi_paths import is_dir, real
from xpubuild.machine.oneapi_roots import Root
from xpubuild.machine.oneapi_stack import mixed_stack

Mode = Literal["components", "setvars", "unified"]


@frozen
class OneapiNeeds:
    """What a recipe needs of oneAPI.

    ``versions`` is a specifier on the compiler's version (">=2025.1,<2025.2"); ``components`` are names in
    the order in which their scripts are to run; ``component_versions`` are specifiers on folder versions of
    other components, for recipes that want something else than the compiler's bundle. ``beside_compiler`` are
    components that the build finds itself, at ``../../COMPONENT/latest`` of the compiler; ``optional`` are
    sourced after the others where they are installed.
    """

    versions: str
    components: tuple[str, ...]
    component_versions: Mapping[str, str] = field(default_factory=dict)
    beside_compiler: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


@frozen
class Selection:
    """The chosen components in the order of the needs, and the way they are to be sourced."""

    root: Root
    mode: Mode
    components: tuple[Component, ...]
    findings: tuple[Finding, ...]

    def get(self, name: str) -> Component | None:
        """Return the chosen component of this name."""
        return next((component for component in self.components if component.name == name), None)


def _preferred(found: Iterable[Component]) -> Component:
    """Return what ``latest`` leads to, else the newest."""
    return max(found, key=lambda component: (component.is_latest, component.sort_key()))


def _compiler_candidates(
    root: Root, installed: Sequence[Component], mode: Mode
) -> tuple[Mode, list[Component]]:
    compilers = [component for component in installed if component.name == COMPILER]
    components = [component for component in compilers if component.layout == "component"]
    unified = [component for component in compilers if component.layout == "unified"]
    if mode == "setvars":
        return mode, [component for component in components if component.is_latest]
    if mode == "unified" or root.toolkit is not None or not components:
        return ("unified" if unified else mode), unified
    return mode, components


def _choose_compiler(root: Root, found: Sequence[Component], needs: OneapiNeeds, mode: Mode) -> Component:
    wanted = specifier(needs.versions)
    verdicts: dict[Path, bool | None] = {}
    for component in found:
        known = load_bundles().toolkit_compiler(component.version)
        verdicts[component.path] = may_satisfy(known or component.version, wanted)
    for verdict in (True, None):
        fitting = [component for component in found if verdicts[component.path] is verdict]
        if fitting:
            return _preferred(fitting)
    raise UnsatisfiableError(
        f"the oneAPI compiler at {root.path} is {' and '.join(c.version for c in found)},"
        f" the recipe needs {needs.versions}",
        why=(
            "setvars.sh uses the version of the link 'latest'"
            if mode == "setvars"
            else "no installed version matches the recipe's constraint"
        ),
        fix=advice.install_bundle(wanted) + "; several versions can be installed in parallel",
        commands=advice.install_commands(wanted),
        evidence={"root": str(root.path), "installed": [c.version for c in found], "wanted": needs.versions},
    )


def _eligible(
    installed: Sequence[Component], compiler: Component | None, mode: Mode, name: str
) -> list[Component]:
    found = [component for component in installed if component.name == name]
    if mode == "unified" and compiler is not None:
        same = [component for component in found if component.path == compiler.path]
        # PTI was shipped beside the unified toolkit, in the component layout (facts: gpu-dev 0.5).
        return same or [component for component in found if component.layout == "component"]
    found = [component for component in found if component.layout == "component"]
    return [component for component in found if component.is_latest] if mode == "setvars" else found


def _choose(
    name: str, found: Sequence[Component], compiler: Component | None, needs: OneapiNeeds
) -> Component:
    if name in needs.component_versions:
        wanted = specifier(needs.component_versions[name])
        fitting = [component for component in found if may_satisfy(component.version, wanted) is not False]
        if not fitting:
            raise UnsatisfiableError(
                f"oneAPI's {name} is {' and '.join(c.version for c in found)}, the recipe needs {wanted}",
                why="no installed version matches the recipe's constraint",
                fix=advice.install_component(name),
                evidence={"installed": [c.version for c in found], "wanted": str(wanted)},
            )
        return _preferred(fitting)
    expected = load_bundles().expected_lines(compiler.version, name) if compiler else frozenset()
    return _preferred([c for c in found if line_of(c.version) in expected] or found)


def select(root: Root, installed: Sequence[Component], needs: OneapiNeeds, mode: Mode) -> Selection:
    """Choose one version of each needed component of one installation.

    The compiler: what ``latest`` leads to if it meets the constraint, else the newest that does. The others:
    what the recipe's version map says, else the version of the compiler's bundle where it is installed,
    else ``latest``, with a finding.

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
    actual, compilers = _compiler_candidates(root, installed, mode)
    compiler = None
    if COMPILER in needs.components and compilers:
        compiler = _choose_compiler(root, compilers, needs, actual)
    chosen: list[Component] = []
    missing: list[str] = []
    for name in needs.components:
        found = _eligible(installed, compiler, actual, name)
        if name == COMPILER and compiler is not None:
            chosen.append(compiler)
        elif name != COMPILER and found:
            chosen.append(_choose(name, found, compiler, needs))
        else:
            missing.append(name)
    if missing:
        folder = "latest" if actual == "setvars" else "VERSION"
        raise advice.missing_components(root, missing, needs.versions, installed, folder)
    _require_beside(root, installed, needs, compiler)
    more = [_eligible(installed, compiler, actual, name) for name in needs.optional]
    chosen += [_choose(found[0].name, found, compiler, needs) for found in more if found]
    return Selection(root, actual, tuple(chosen), _findings(root, installed, chosen, mode, actual))


def _require_beside(
    root: Root, installed: Sequence[Component], needs: OneapiNeeds, compiler: Component | None
) -> None:
    if compiler is not None and compiler.layout == "component":
        for name in needs.beside_compiler:
            _require_latest(root, installed, needs, compiler, name)


def _require_latest(
    root: Root, installed: Sequence[Component], needs: OneapiNeeds, compiler: Component, name: str
) -> None:
    """Refuse what ``latest`` of a component beside the compiler leads to, where it is of another bundle."""
    latest = compiler.path.parent.parent / name / LATEST
    if not is_dir(latest):
        raise advice.missing_components(root, [name], needs.versions, installed, LATEST)
    found = real(latest).name
    expected = load_bundles().expected_lines(compiler.version, name)
    if not expected or line_of(found) in (None, *expected):
        return
    wanted = " or ".join(sorted(expected))
    there = sorted(item.version for item in installed if item.name == name)
    has_it = next((version for version in there if line_of(version) in expected), None)
    link = shlex.join(["sudo", "ln", "-sfn", has_it, str(latest)]) if has_it else ""
    raise ToolchainError(
        f"the build would use {name} {found} with the compiler {compiler.version}",
        why=f"CMake takes {latest}, and two versions of oneAPI in one process have two SYCL runtimes;"
        f" the compiler's {name} is {wanted}",
        fix=f"make {latest} lead to {wanted}" if has_it else advice.install_component(name),
        commands=(link,) if link else (),
        evidence={"latest": str(latest), "found": found, "expected": sorted(expected), "installed": there},
    )


def _findings(
    root: Root, installed: Sequence[Component], chosen: Sequence[Component], asked: Mode, actual: Mode
) -> tuple[Finding, ...]:
    bundles = load_bundles()
    findings = list(latest_drift(root, installed, [component.name for component in chosen]))
    mixed = mixed_stack(chosen, bundles, code="oneapi-mixed-stack")
    findings += mixed
    latest = [component for component in installed if component.is_latest]
    if not mixed and set(latest) != set(chosen):
        names = {component.name for component in chosen}
        findings += mixed_stack(
            [component for component in latest if component.name in names],
            bundles,
            code="oneapi-latest-drift",
        )
    if actual != asked:
        findings.append(
            Finding(
                "oneapi-unified-layout",
                f"{root.path} is sourced through oneapi-vars.sh: component scripts of the unified layout"
                " cannot be used alone",
            )
        )
    return tuple(findings)
