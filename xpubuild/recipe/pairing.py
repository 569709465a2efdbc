"""Which triton, vision and audio match a torch, by upstream's declared requirements."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from xpubuild.machine.versions import fits, parse
from xpubuild.recipe.conditions import Case
from xpubuild.recipe.model import Component
from xpubuild.recipe.situation import Reason

_TORCH = "torch"


def chosen_components(case: Case) -> tuple[str, ...]:
    """Return the components that are asked for, or those that the recipe builds by itself."""
    asked = case.situation.components
    if asked is not None:
        return asked
    target = case.situation.target
    return tuple(
        name for name, item in case.recipe.components.items() if not item.optional and target in item.targets
    )


def version_of(case: Case, name: str) -> str | None:
    """Return the version of a component as the recipe pins it."""
    component = case.recipe.components[name]
    if name == _TORCH and case.recipe.release is not None:
        # version.txt of the tag says 2.6.0a0; the wheel is built, and asked for, as 2.6.0.
        return case.recipe.release
    return component.version or (component.source.version if component.source else None)


def pairing_reasons(case: Case) -> Iterator[Reason]:
    """Return what speaks against the components together, and against versions that are there already."""
    for name in chosen_components(case):
        component = case.recipe.components.get(name)
        if component is None:
            yield _absent(case, name)
            continue
        yield from _declared(case, name, component)
        yield from _prebuilt_abi(case, name, component)
        if component.end_of_life:
            yield case.reason(
                name, "note", "no",
                wanted="", found=f"upstream no longer maintains {component.dist}: {component.end_of_life}",
                path=f"components.{name}.end_of_life",
            )  # fmt: skip
    for name, version in case.situation.versions.items():
        yield from _present(case, name, version)


def _absent(case: Case, name: str) -> Reason:
    return case.reason(
        name, "builds", "no",
        wanted="one of the components " + ", ".join(case.recipe.components),
        found=f"'{name}' was requested, but this release does not have it",
        todo=f"exclude {name}",
        path="components",
    )  # fmt: skip


def _declared(case: Case, name: str, component: Component) -> Iterator[Reason]:
    for text in component.requires:
        try:
            requirement = Requirement(text)
        except InvalidRequirement:
            continue
        other = _owner(case, requirement.name)
        if other is None:
            continue
        version = version_of(case, other)
        # Builds carry local labels (2.6.0+xpu), which a public specifier ignores, as pip does.
        answer = fits(version, str(requirement.specifier))
        if answer != "yes":
            yield case.reason(
                name, "builds", answer,
                wanted=f"{text} for {component.dist}",
                found=f"this release has {requirement.name} {version}"
                if version
                else f"the version of {requirement.name} is unknown",
                todo=f"exclude {name}, or use a matching version of {component.dist}",
                path=f"components.{name}.requires",
            )  # fmt: skip


def _owner(case: Case, dist: str) -> str | None:
    wanted = canonicalize_name(dist)
    for name, component in case.recipe.components.items():
        if canonicalize_name(component.dist) == wanted:
            return name
    return None


def _prebuilt_abi(case: Case, name: str, component: Component) -> Iterator[Reason]:
    abi = case.situation.cxx11_abi
    wanted = case.recipe.abi.default if abi is None else abi
    if component.kind == "wheel" and component.cxx11_abi not in (None, wanted):
        yield case.reason(
            "cxx11_abi", "builds", "no",
            wanted=f"C++11 ABI {component.cxx11_abi}, that of the prebuilt {component.dist}",
            found=f"the rest is built with {wanted}",
            todo=f"use --cxx11-abi {component.cxx11_abi}",
            path=f"components.{name}.cxx11_abi",
        )  # fmt: skip


def _present(case: Case, name: str, version: str) -> Iterator[Reason]:
    component = case.recipe.components.get(name)
    if component is None:
        yield _absent(case, name)
        return
    pinned = version_of(case, name)
    here, wanted = parse(version), parse(pinned) if pinned else None
    if here is not None and wanted is not None and _same(here, wanted):
        return
    unknown = here is None or wanted is None
    yield case.reason(
        name, "builds", "unknown" if unknown else "no",
        wanted=f"{component.dist} {pinned}" if pinned else f"a version of {component.dist} that is unknown",
        found=f"{version} is installed or requested",
        todo=f"use {component.dist} {pinned}" if pinned else "",
        path=f"components.{name}.version",
    )  # fmt: skip


def _same(here: Version, wanted: Version) -> bool:
    """Whether a version is the one wanted; ``3.3`` is any patch of it, and a local label does not count."""
    if len(here.release) < len(wanted.release) and here.pre is None:
        return wanted.release[: len(here.release)] == here.release
    return Version(here.public) == Version(wanted.public)
