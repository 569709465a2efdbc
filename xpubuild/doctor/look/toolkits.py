"""The oneAPI installations of a host, the components that a recipe uses, and those in the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import Look, once, real
from xpubuild.errors import ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_bundles import load_bundles
from xpubuild.machine.oneapi_components import COMPILER, Component, list_components
from xpubuild.machine.oneapi_paths import is_file
from xpubuild.machine.oneapi_roots import COMPONENT_SCRIPT, UNIFIED_ENTRY, Root, find_roots
from xpubuild.machine.oneapi_selection import OneapiNeeds, Selection, select

#: Variables that component scripts set to one component's folder.
ROOT_VARIABLES = {
    "CMPLR_ROOT": COMPILER,
    "MKLROOT": "mkl",
    "CCL_ROOT": "ccl",
    "I_MPI_ROOT": "mpi",
    "TBBROOT": "tbb",
    "DNNLROOT": "dnnl",
    "UMF_ROOT": "umf",
    "TCM_ROOT": "tcm",
}
#: Search lists that component scripts add to.
LIST_VARIABLES = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CMAKE_PREFIX_PATH", "PATH")
ANY_VERSION = ">=0"


@frozen
class Installed:
    """One installation with its components."""

    root: Root
    components: tuple[Component, ...]


@frozen
class Sourced:
    """One component's folder in the environment: ``variable`` is set to it or lists it."""

    variable: str
    component: str
    version: str
    folder: Path
    root: Path


@once
def toolkits(look: Look) -> tuple[Installed, ...]:
    """Return the installations, that of ONEAPI_ROOT first."""
    caller = look.environ if look.live else {}
    try:
        roots = find_roots(None, caller, root_dir=look.root)
    except XpuBuildError:
        return ()
    return tuple(Installed(root, list_components(root, root_dir=look.root)) for root in roots)


def needs_of(look: Look) -> OneapiNeeds | None:
    """Return the recipe's oneAPI requirements; None without a recipe, or for one for the CPU."""
    recipe = look.wanted
    if recipe is None or recipe.target != "xpu" or not recipe.needs.oneapi_components:
        return None
    needs = recipe.needs
    return OneapiNeeds(
        needs.oneapi or ANY_VERSION,
        tuple(needs.oneapi_components),
        beside_compiler=tuple(needs.oneapi_beside_compiler),
        optional=tuple(needs.oneapi_optional),
    )


def for_cpu(look: Look) -> bool:
    """Whether there is a recipe and it needs no oneAPI."""
    return look.recipe is not None and needs_of(look) is None


@once
def selection(look: Look) -> Selection | XpuBuildError:
    """Return the components for a build, or the error if there are none."""
    needs = needs_of(look)
    wanted = needs or OneapiNeeds(ANY_VERSION, (COMPILER,))
    failures: list[XpuBuildError] = []
    for installed in toolkits(look):
        try:
            return select(installed.root, installed.components, wanted, "components")
        except (ToolchainError, UnsatisfiableError) as error:
            failures.append(error)
    found = next((item for item in failures if isinstance(item, UnsatisfiableError)), None)
    return found or (failures[0] if failures else ToolchainError("no oneAPI installation was found"))


def compiler_of(look: Look) -> Component | None:
    """Return the compiler that would be used, or None."""
    chosen = selection(look)
    return None if isinstance(chosen, XpuBuildError) else chosen.get(COMPILER)


def version_of(compiler: str) -> str:
    """Return the compiler version for the name of a folder; toolkit folders have the toolkit's version."""
    return load_bundles().toolkit_compiler(compiler) or compiler


@once
def sourced(look: Look) -> tuple[Sourced, ...]:
    """Return the oneAPI folders in the caller's environment."""
    return tuple(dict.fromkeys(_sourced(look)))


def _sourced(look: Look) -> Iterator[Sourced]:
    for variable, component in ROOT_VARIABLES.items():
        value = look.environ.get(variable, "")
        found = _locate(look, Path(value)) if value.startswith("/") else None
        if found is not None:
            # A toolkit with the unified layout is one folder for all components.
            name = component if found[0] == "" else found[0]
            yield Sourced(variable, name, found[1], found[2], found[3])
    for variable in LIST_VARIABLES:
        for entry in look.listed(variable):
            found = _locate(look, entry)
            if found is not None:
                yield Sourced(variable, found[0], found[1], found[2], found[3])


def _locate(look: Look, path: Path) -> tuple[str, str, Path, Path] | None:
    """Return component (empty for a toolkit), version, folder and root that contain ``path``."""
    place = real(look.path(path))
    for folder in (place, *place.parents):
        if is_file(folder / COMPONENT_SCRIPT):
            return folder.parent.name, folder.name, folder, folder.parent.parent
        if is_file(folder / UNIFIED_ENTRY):
            return "", folder.name, folder, folder.parent
    return None
