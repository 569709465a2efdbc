"""Which triton, vision and audio match a torch, by upstream's declared requirements."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.machine.versions import fits
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.model import Component, Recipe
from xpubuild.recipe.situation import Reason


def version_of(recipe: Recipe, name: str) -> str | None:
    """Return the version of a component as the recipe pins it."""
    component = recipe.components[name]
    if name == "torch" and recipe.release is not None:
        # version.txt of the tag says 2.6.0a0; the wheel is built, and asked for, as 2.6.0.
        return recipe.release
    return component.version or (component.source.version if component.source else None)


def pairing_reasons(case: Case) -> Iterator[Reason]:
    """Return what speaks against the components together."""
    components, host = case.recipe.components, case.situation
    chosen = host.components
    if chosen is None:
        chosen = tuple(
            n for n, item in components.items() if not item.optional and host.target in item.targets
        )
    for name in chosen:
        if name not in components:
            yield case.reason(
                name, "builds", "no",
                wanted="one of the components " + ", ".join(components),
                found=f"'{name}' was requested, but this release does not have it",
                todo=f"exclude {name}",
                path="components",
            )  # fmt: skip
    for name in filter(components.__contains__, chosen):
        component = components[name]
        yield from _declared(case, name, component)
        yield from _prebuilt_abi(case, name, component)
        if component.end_of_life:
            yield case.reason(
                name, "note", "no",
                found=f"upstream no longer maintains {component.dist}: {component.end_of_life}",
                path=f"components.{name}.end_of_life",
            )  # fmt: skip


def _declared(case: Case, name: str, component: Component) -> Iterator[Reason]:
    owners = {canonicalize_name(item.dist): key for key, item in reversed(case.recipe.components.items())}
    for text in component.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        other = owners.get(canonicalize_name(requirement.name))
        version = version_of(case.recipe, other) if other else None
        # Builds carry local labels (2.6.0+xpu), which a public specifier ignores, as pip does.
        answer = fits(version, str(requirement.specifier))
        if other and answer != "yes":
            yield case.reason(
                name, "builds", answer,
                wanted=f"{text} for {component.dist}",
                found=f"this release has {requirement.name} {version}"
                if version
                else f"the version of {requirement.name} is unknown",
                todo=f"exclude {name}, or use a matching version of {component.dist}",
                path=f"components.{name}.requires",
            )  # fmt: skip


def _prebuilt_abi(case: Case, name: str, component: Component) -> Iterator[Reason]:
    asked = case.situation.cxx11_abi
    wanted = case.recipe.abi.default if asked is None else asked
    if component.kind == "wheel" and component.cxx11_abi not in (None, wanted):
        yield case.reason(
            "cxx11_abi", "builds", "no",
            wanted=f"C++11 ABI {component.cxx11_abi}, that of the prebuilt {component.dist}",
            found=f"the rest is built with ABI {wanted}",
            todo=f"use --cxx11-abi {component.cxx11_abi}",
            path=f"components.{name}.cxx11_abi",
        )  # fmt: skip
