"""The oneAPI installations of a host, the components that a recipe uses, and those in the environment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import Look, once, real
from xpubuild.errors import ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_bundles import COMPILER
from xpubuild.machine.oneapi_installed import Component, Installation, enclosing, find_installations
from xpubuild.machine.oneapi_select import OneapiNeeds, Selection, select_first

#: Variables that component scripts set to one component's folder.
ROOT_VARIABLES = {
    "CMPLR_ROOT": COMPILER, "MKLROOT": "mkl", "CCL_ROOT": "ccl", "I_MPI_ROOT": "mpi", "TBBROOT": "tbb",
    "DNNLROOT": "dnnl", "UMF_ROOT": "umf", "TCM_ROOT": "tcm",
}  # fmt: skip
#: Search lists that component scripts add to.
LIST_VARIABLES = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "CMAKE_PREFIX_PATH", "PATH")
ANY_VERSION = ">=0"


@frozen
class Sourced:
    """One component's folder in the environment: ``variable`` is set to it or lists it."""

    variable: str
    component: str
    version: str
    folder: Path
    root: Path


@once
def toolkits(look: Look) -> tuple[Installation, ...]:
    """Return the installations, that of ONEAPI_ROOT first."""
    return find_installations(None, look.environ if look.live else {}, root=look.root)


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
    wanted = needs_of(look) or OneapiNeeds(ANY_VERSION, (COMPILER,))
    try:
        return select_first(toolkits(look), wanted, "components")
    except (ToolchainError, UnsatisfiableError) as error:
        return error


def compiler_of(look: Look) -> Component | None:
    """Return the compiler that would be used, or None."""
    chosen = selection(look)
    return None if isinstance(chosen, XpuBuildError) else chosen.get(COMPILER)


@once
def sourced(look: Look) -> tuple[Sourced, ...]:
    """Return the oneAPI folders in the caller's environment."""
    return tuple(dict.fromkeys(_sourced(look)))


def _sourced(look: Look) -> Iterator[Sourced]:
    for variable, component in ROOT_VARIABLES.items():
        value = look.environ.get(variable, "")
        found = enclosing(real(look.path(Path(value)))) if value.startswith("/") else None
        if found is not None:
            # A toolkit with the unified layout is one folder for all components.
            yield Sourced(variable, found[0] or component, found[1].name, found[1], found[2])
    for variable in LIST_VARIABLES:
        for entry in look.listed(variable):
            found = enclosing(real(look.path(entry)))
            if found is not None:
                yield Sourced(variable, found[0], found[1].name, found[1], found[2])
