"""Checks the build switches of a recipe against those that its release uses. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from packaging.version import Version

from xpubuild.frozen import frozen
from xpubuild.recipe.model import Component, Recipe
from xpubuild.recipe.switches import Switch, is_on, switches

#: What ``{...}`` in a value may be; build/context.py fills them in.
PLACEHOLDERS = frozenset({"cxx11_abi", "env", "arch", "build", "xpu"})
#: In the specifications of conda packages; planning/conda_steps.py fills them in.
CONDA_PLACEHOLDERS = frozenset({"python", "mkl"})
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_PAIR = re.compile(r"\{[^{}]*\}")
_TAG = re.compile(r"(?:refs/tags/)?v(\d+(?:\.\d+)+(?:-?rc\d+)?)")
#: A target's name beside the value of {xpu} that goes with it.
_TARGETS = (("xpu", "1"), ("cpu", "0"))
_ABI_FIXED_SINCE = Version("2.8")
_SPECIAL = {
    "runtime": "it is used when torch runs, not when it is built",
    "ci": "only upstream's CI uses it",
}


@frozen
class Lint:
    """What was found: ``problems`` make a recipe wrong, ``warnings`` are for its author to look at."""

    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@frozen
class _Place:
    """The environment of one component, as the recipe has it or under one of its variants."""

    component: str
    variant: str | None
    env: Mapping[str, str]

    def __str__(self) -> str:
        return self.component if self.variant is None else f"{self.component} (variant {self.variant})"


def lint(recipe: Recipe) -> Lint:
    """Return what is wrong with the build switches of a recipe for the release it builds."""
    if recipe.abstract:
        return Lint(tuple(placeholder_problems(recipe)))
    problems = [*placeholder_problems(recipe), *_abi(recipe)]
    warnings: list[str] = []
    for place in _places(recipe):
        problems += _problems(recipe, place)
        warnings += _misspelt(place)
    # What a variant inherits is said once.
    return Lint(tuple(dict.fromkeys(problems)), tuple(dict.fromkeys(warnings)))


def torch_release(recipe: Recipe) -> str | None:
    """Return the release whose switches count; None for a development branch."""
    torch = recipe.components.get("torch")
    if recipe.release is not None or torch is None:
        return recipe.release
    tag = _TAG.fullmatch(torch.source.ref or "") if torch.source is not None else None
    return torch.version or (tag[1] if tag is not None else None)


def known_here(recipe: Recipe) -> bool:
    """Whether it can be said which release of PyTorch a recipe builds: it names it, or follows a branch."""
    torch = recipe.components.get("torch")
    source = torch.source if torch is not None else None
    return torch_release(recipe) is not None or (source is not None and source.ref is not None)


def _places(recipe: Recipe) -> Iterator[_Place]:
    for name, component in recipe.components.items():
        if component.kind == "source":
            yield _Place(name, None, _environment(recipe, name, component, None))
            for variant, over in recipe.variants.items():
                if name in over.env:
                    yield _Place(name, variant, _environment(recipe, name, component, variant))


def _environment(recipe: Recipe, name: str, component: Component, variant: str | None) -> dict[str, str]:
    over = recipe.variants[variant].env.get(name, {}) if variant is not None else {}
    # Values for all components are torch's business; the others do not read its switches.
    common = recipe.env if name == "torch" else {}
    return {key: str(value) for key, value in {**common, **component.build.env, **over}.items()}


def _problems(recipe: Recipe, place: _Place) -> Iterator[str]:
    release = torch_release(recipe)
    for name, value in place.env.items():
        switch = switches().get(name)
        if switch is None:
            continue
        unread = _unread(recipe, switch, place, release)
        if unread is not None:
            yield f"{place}: {name} is set, {unread}" + (f"; {switch.instead}" if switch.instead else "")
            continue
        yield from _value_problems(recipe, place, switch, value, release)
    if place.component == "torch" and place.variant is None and known_here(recipe):
        for switch in switches().values():
            if switch.explicit and switch.reads(release) and switch.name not in place.env:
                yield (f"{place}: {switch.name} is not set; its default depends on the host ({switch.does})")


def _unread(recipe: Recipe, switch: Switch, place: _Place, release: str | None) -> str | None:
    if switch.kind == "foreign":
        return f"which PyTorch does not use: {switch.does}"
    if switch.kind in _SPECIAL:
        return f"but {_SPECIAL[switch.kind]}"
    if switch.kind == "build" and switch.component != place.component:
        return None
    if not known_here(recipe) or switch.reads(release):
        return None
    return f"which {release or 'the development branch'} does not use ({switch.lines()})"


def _value_problems(
    recipe: Recipe, place: _Place, switch: Switch, value: str, release: str | None
) -> Iterator[str]:
    for target, xpu in _TARGETS:
        if target not in recipe.targets:
            continue
        filled = _filled(recipe, value, xpu)
        if filled is None:
            return
        said = f"{place}: {switch.name}={filled}"
        misread = switch.misreadings(filled, release) if known_here(recipe) else []
        yield from (f"{said}: {why}" for why in misread)
        if not misread and not switch.accepts(filled):
            yield f"{said} is not {switch.expects()}"
        elif switch.follows is not None and is_on(filled) != (switch.follows == target):
            yield f"{said} for target {target}; write it as '{{{switch.follows}}}'"


def _filled(recipe: Recipe, value: str, xpu: str) -> str | None:
    """Return a value as a build gets it; None where that depends on the machine or on options."""
    filled = value.replace("{xpu}", xpu).replace("{arch}", ",".join(recipe.arch))
    filled = filled.replace("{cxx11_abi}", str(recipe.abi.default))
    return None if _PLACEHOLDER.search(filled) else filled


def placeholder_problems(recipe: Recipe) -> Iterator[str]:
    """Yield what in a recipe looks like a placeholder and is none: key, name and the known names."""
    yield from _unknown(_templates(recipe), PLACEHOLDERS)
    if recipe.toolchain.conda is not None:
        packages = enumerate(recipe.toolchain.conda.packages)
        yield from _unknown(
            ((f"toolchain.conda.packages.{index}", item) for index, item in packages), CONDA_PLACEHOLDERS
        )


def _unknown(templates: Iterable[tuple[str, object]], known: Collection[str]) -> Iterator[str]:
    told = ", ".join(f"{{{item}}}" for item in sorted(known))
    for path, value in templates:
        for name in _PLACEHOLDER.findall(str(value)):
            if name not in known:
                yield f"{path}: '{{{name}}}' is not a placeholder; placeholders are {told}"
        rest = _PAIR.sub("", str(value))
        if "{" in rest or "}" in rest:
            yield f"{path}: '{value}' has an unmatched brace; placeholders are {told}"


def _templates(recipe: Recipe) -> Iterator[tuple[str, object]]:
    yield from ((f"env.{key}", value) for key, value in recipe.env.items())
    for name, component in recipe.components.items():
        where = f"components.{name}.build"
        yield from ((f"{where}.env.{key}", value) for key, value in component.build.env.items())
        settings = component.build.config_settings
        yield from ((f"{where}.config_settings.{key}", value) for key, value in settings.items())
    for variant, over in recipe.variants.items():
        for name, env in over.env.items():
            yield from ((f"variants.{variant}.env.{name}.{key}", value) for key, value in env.items())


def _abi(recipe: Recipe) -> Iterator[str]:
    torch = recipe.components.get("torch")
    release = torch_release(recipe) if torch is not None and torch.kind == "source" else None
    if release is None or Version(release) < _ABI_FIXED_SINCE:
        return
    always = f"but {release} always builds the C++11 ABI 1 (since 2.8)"
    if recipe.abi.honoured:
        yield f"abi.honoured is true, {always}"
    if recipe.abi.default == 0:
        yield f"abi.default is 0, {always}"


def _misspelt(place: _Place) -> Iterator[str]:
    for name in place.env:
        if name not in switches():
            near = difflib.get_close_matches(name, switches(), n=1, cutoff=0.9)
            if near:
                yield f"{place}: {name} is not a switch that is known; {near[0]} is"


def unheard(
    recipe: Recipe, kinds: Collection[str], caller: Mapping[str, str], passed_on: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the caller's variables that upstream would have read and that nothing in a plan gets.

    ``kinds`` are the kinds of variables that could matter to the plan (see ``switches.Kind``).
    """
    release = torch_release(recipe)
    return tuple(
        sorted(
            switch.name
            for switch in switches().values()
            if switch.kind in kinds
            and switch.shell == "refused"
            and switch.reads(release)
            and switch.name in caller
            and switch.name not in passed_on
        )
    )
