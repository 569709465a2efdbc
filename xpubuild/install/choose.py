"""Resolves a request against a recipe: components, target, ABI, variant. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from packaging.specifiers import SpecifierSet

from xpubuild.errors import RecipeError, UnsatisfiableError, UsageError
from xpubuild.install.archive_steps import require_there
from xpubuild.install.build_situation import of_request
from xpubuild.install.refusal import refused
from xpubuild.install.request import Choice, Facts, Request
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.lint import placeholder_problems
from xpubuild.recipe.model import Component, Recipe
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.recipe.targets import target_of
from xpubuild.recipe.values import Target
from xpubuild.resources import docs_page

_ARCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


def choose(request: Request) -> Choice:
    """Return what will be built.

    Raises:
        UsageError: an option names something the recipe does not have.
        RecipeError: a value has an unknown placeholder.
        UnsatisfiableError: the recipe cannot be built as asked.
    """
    recipe = request.loaded.recipe
    if recipe.abstract:
        raise UsageError(
            f"recipe '{recipe.name}' can only be extended, not built",
            fix="choose a recipe that can be built",
            commands=("xpubuild recipes list",),
        )
    _require_placeholders(request)
    target = target_of(recipe, request.target)
    _require_aot_targets(request, recipe, target)
    components = _components(request, recipe, target)
    variant = _variant(request, recipe)
    choice = Choice(
        target=target,
        cxx11_abi=_abi(request, recipe, components),
        components=components,
        variant=variant,
        arch=request.arch or tuple(recipe.arch),
        switches=_switches(recipe, components, variant),
    )
    require_there(recipe, choice)
    return choice


def _require_placeholders(request: Request) -> None:
    """Reject placeholders that would reach a build unfilled."""
    problems = list(placeholder_problems(request.loaded.recipe))
    if problems:
        raise RecipeError(
            f"the recipe {request.loaded.path} has an unknown placeholder",
            why="; ".join(problems),
            fix=f"correct these keys; {docs_page('reference/recipe.md')} explains the placeholders",
            evidence={"problems": problems},
        )


def _require_aot_targets(request: Request, recipe: Recipe, target: Target) -> None:
    """Reject AOT targets that the build cannot have."""
    for name in request.arch:
        if not _ARCH.fullmatch(name):
            raise UsageError(f"--arch '{name}' is not an AOT target", fix="use targets such as pvc or bmg")
    if not request.arch:
        return
    if target != "xpu":
        other = ", or build for the GPU with --target xpu" if "xpu" in recipe.targets else ""
        raise UsageError(
            f"--arch {','.join(request.arch)} is only for the GPU, but the target of this build is {target}",
            why="AOT targets name GPUs that SYCL kernels are compiled for; a build for the CPU has none",
            fix=f"omit --arch (XPUBUILD_ARCH is the same option){other}",
        )
    found = solve(recipe, Situation(target=target, arch=request.arch))
    against = tuple(item for item in found.against() if item.constraint == "arch")
    if against:
        raise refused(recipe, replace(found, builds="no", reasons=against))


def _components(request: Request, recipe: Recipe, target: Target) -> tuple[str, ...]:
    for name in (*request.with_, *request.without):
        if name not in recipe.components:
            raise UsageError(
                f"recipe '{recipe.name}' has no component '{name}'",
                why=f"its components are: {', '.join(recipe.components)}",
                fix="use these names with --with and --without",
            )
    both = set(request.with_) & set(request.without)
    if both:
        raise UsageError(
            f"{', '.join(sorted(both))} is in both --with and --without", fix="list it in only one of them"
        )
    for name in request.with_:
        targets = recipe.components[name].targets
        if target not in targets:
            raise UnsatisfiableError(
                f"'{name}' is not built for target {target}",
                why=f"recipe '{recipe.name}' has it only for {', '.join(targets)}",
                fix=f"remove {name} from --with, or use --target {targets[0]}",
            )
    chosen = {
        name
        for name, component in recipe.components.items()
        if (not component.optional or name in request.with_)
        and name not in request.without
        and target in component.targets
    }
    for name in chosen:
        missing = [need for need in recipe.components[name].needs if need not in chosen]
        if missing:
            raise UnsatisfiableError(
                f"'{name}' cannot be built without '{missing[0]}'",
                why=f"the recipe says that {name} needs {', '.join(recipe.components[name].needs)}",
                fix=f"exclude both: --without {missing[0]},{name}",
            )
    return _ordered(recipe, chosen)


def _ordered(recipe: Recipe, chosen: set[str]) -> tuple[str, ...]:
    """Return components in an order in which each comes after what it needs: a recipe has no circles."""
    ordered: list[str] = []
    waiting = [name for name in recipe.components if name in chosen]
    while waiting:
        ready = [n for n in waiting if all(need in ordered for need in recipe.components[n].needs)]
        ordered.extend(ready)
        waiting = [name for name in waiting if name not in ready]
    return tuple(ordered)


def _variant(request: Request, recipe: Recipe) -> str | None:
    name = request.variant
    if name is not None and name not in recipe.variants:
        raise UsageError(
            f"recipe '{recipe.name}' has no variant '{name}'",
            why="it has " + (", ".join(recipe.variants) or "none"),
            fix="omit --variant, or use one of these" if recipe.variants else "omit --variant",
        )
    return name


def _abi(request: Request, recipe: Recipe, components: tuple[str, ...]) -> int:
    wanted = recipe.abi.default if request.cxx11_abi is None else request.cxx11_abi
    for name in components:
        component = recipe.components[name]
        if component.kind == "wheel" and component.cxx11_abi not in (None, wanted):
            raise _abi_of_wheel(recipe, name, component, wanted)
    if wanted != recipe.abi.default and not recipe.abi.honoured:
        raise UnsatisfiableError(
            (
                f"--cxx11-abi {wanted} was requested, but '{recipe.name}' always builds with C++11 ABI "
                f"{recipe.abi.default}"
            ),
            why=recipe.abi.note or "this release ignores the switch, so the result would have the other ABI",
            fix=f"use --cxx11-abi {recipe.abi.default}, or choose a release that honours the switch",
            commands=("xpubuild recipes list",),
        )
    return wanted


def _abi_of_wheel(recipe: Recipe, name: str, component: Component, wanted: int) -> UnsatisfiableError:
    return UnsatisfiableError(
        (
            f"C++11 ABI {wanted} was requested, but {component.dist} {component.version} has ABI "
            f"{component.cxx11_abi}"
        ),
        why=(
            f"recipe '{recipe.name}' uses a prebuilt wheel of {name}; code with ABI {wanted} links against "
            f"ABI {component.cxx11_abi}, but fails at import with undefined symbols"
        ),
        fix=(
            f"use ABI {component.cxx11_abi} (or omit --cxx11-abi); for ABI {wanted} choose a recipe that "
            f"builds {name} from source and honours the switch"
        ),
        commands=(
            f"xpubuild install {recipe.name} --cxx11-abi {component.cxx11_abi}",
            "xpubuild recipes list",
        ),
        evidence={"asked_abi": wanted, "torch_abi": component.cxx11_abi},
    )


def _switches(
    recipe: Recipe, components: tuple[str, ...], variant: str | None
) -> Mapping[str, Mapping[str, str]]:
    result: dict[str, dict[str, str]] = {}
    for name in components:
        over = recipe.variants[variant].env.get(name, {}) if variant else {}
        merged = {**recipe.env, **recipe.components[name].build.env, **over}
        result[name] = {key: str(value) for key, value in merged.items()}
    return result


def check_host(request: Request, choice: Choice, facts: Facts) -> Verdict:
    """Check the recipe's requirements against the host, and return the verdict of the constraint solver.

    Raises:
        UnsatisfiableError: naming what was found and what is needed.
    """
    recipe = request.loaded.recipe
    if facts.python_version not in SpecifierSet(recipe.needs.python):
        raise UnsatisfiableError(
            f"'{recipe.name}' does not support Python {facts.python_version}",
            why=f"the recipe needs Python {recipe.needs.python}; {facts.python} is {facts.python_version}",
            fix="use another interpreter with --python",
        )
    if choice.target == "xpu" and recipe.needs.oneapi is not None and facts.oneapi is None:
        raise UnsatisfiableError(
            f"'{recipe.name}' for XPU needs oneAPI {recipe.needs.oneapi}", why="no oneAPI was found"
        )
    verdict = solve(recipe, of_request(request, choice, facts))
    if verdict.refused:
        raise refused(recipe, verdict)
    return verdict
