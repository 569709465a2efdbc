"""What the compatibility function of recipes says of this host, so that doctor, plan and matrix agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.look.sites import interpreter
from xpubuild.doctor.look.toolkits import toolkits
from xpubuild.errors import XpuBuildError
from xpubuild.machine.compilers import CompilerFacts, choose_compilers
from xpubuild.machine.readers import UNKNOWN

if TYPE_CHECKING:
    from xpubuild.recipe.model import Recipe
    from xpubuild.recipe.situation import Reason, Situation


@once
def host_compiler(look: Look) -> CompilerFacts | XpuBuildError | None:
    """Return the C++ compiler of a build: of CC and CXX, or the error in these, else g++ on PATH, or None."""
    if look.live and any(look.environ.get(name) for name in ("CC", "CXX")):
        try:
            return choose_compilers(None, caller=look.environ, system=look.host.os).cxx
        except XpuBuildError as error:
            return error
    return next((item for item in look.host.compilers if item.name == "g++"), None)


@once
def situation(look: Look) -> Situation:
    """Return this host with the interpreter, compiler and oneAPI that a build would use."""
    from xpubuild.recipe.compatible_host import CMAKE_ID, of_host, oneapi_versions  # noqa: PLC0415 - pydantic

    target = look.wanted.target if look.wanted else "xpu"
    python, compiler = interpreter(look), host_compiler(look)
    found = of_host(look.host, target)
    if python is not None and not python.error and python.version != UNKNOWN:
        found = replace(found, python=(python.version,))
    if isinstance(compiler, CompilerFacts):
        kind = CMAKE_ID.get(compiler.kind)
        found = replace(found, host_compiler=kind, gcc=compiler.version if kind == "GNU" else None)
    components = (item for place in toolkits(look) for item in place.components)
    return replace(found, oneapi=oneapi_versions((item.name, item.version) for item in components))


def refused_by(look: Look, constraint: str, **known: Any) -> dict[str, Reason]:
    """Return why a constraint rules the recipe out here, or without one each line of releases, by name."""
    from xpubuild.recipe.constraints import solve  # noqa: PLC0415 - pydantic, and only where it matters

    here = replace(situation(look), **known)
    found = ((name, reason) for name, item in _recipes(look) for reason in solve(item, here).against())
    return {name: reason for name, reason in found if reason.constraint == constraint}


def lost_with(look: Look, **change: Any) -> str:
    """Return what the recipe, or each line of releases, loses on this host after a change; "" for nothing."""
    from xpubuild.recipe.constraints import solve  # noqa: PLC0415 - pydantic, and only where it matters

    here, lost = situation(look), dict[str, list[str]]()
    for name, recipe in _recipes(look):
        now, then = (
            [item.feature for item in solve(recipe, host).loses if item.certain]
            for host in (here, replace(here, **change))
        )
        for feature in then:
            lost.setdefault(feature, []).extend([] if feature in now else [name])
    return "; ".join(f"{', '.join(names)} lose {feature}" for feature, names in lost.items() if names)


def _recipes(look: Look) -> Iterator[tuple[str, Recipe]]:
    """Yield the recipe that is looked at, or without one that of each line of releases."""
    from xpubuild.recipe.releases import releases  # noqa: PLC0415 - pydantic, and only where it matters

    if look.wanted is not None:
        yield look.wanted.name, look.wanted
    else:
        yield from ((item.line, item.recipe) for item in releases() if item.name == item.line)


def judged(look: Look, *about: str, **known: Any) -> list[Reason]:
    """Return what speaks against the recipe here, by constraint, what is certain first; [] without a recipe.

    A refusal is about the driver, the GPU, or what its condition names first. ``known`` changes facts.
    """
    recipe = look.wanted
    if recipe is None:
        return []
    from xpubuild.recipe.constraints import solve  # noqa: PLC0415 - pydantic, and only with a recipe

    refused = {
        item.why: "driver" if item.driver else "gpu" if item.gpu else next(iter(item.when), "")
        for item in recipe.refuses
    }
    reasons = solve(recipe, replace(situation(look), **known)).reasons
    mine = [
        item
        for item in reasons
        if item.concern != "note"
        and (refused.get(item.found) if item.constraint == "refused" else item.constraint) in about
    ]
    return sorted(mine, key=lambda item: item.answer != "no")


def lost_with_gcc(look: Look, recipe: Recipe) -> list[str]:
    """Return the features that a build with this GCC certainly lacks."""
    from xpubuild.recipe.constraints import solve  # noqa: PLC0415 - pydantic, and only with a recipe

    by_gcc = {item.feature for item in recipe.loses if "gcc" in item.when}
    return [
        item.feature
        for item in solve(recipe, situation(look)).loses
        if item.certain and item.feature in by_gcc
    ]
