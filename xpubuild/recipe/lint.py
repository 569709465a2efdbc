"""Checks the build switches of a recipe against those that its release uses. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from packaging.version import Version

from xpubuild.recipe.model import Recipe
from xpubuild.recipe.switches import Switch, is_on, switches

#: What ``{...}`` in a value may be; ``install.target`` fills them in.
PLACEHOLDERS = frozenset({"cxx11_abi", "env", "arch", "build", "xpu", "target"})
#: In the specifications of conda packages; ``install.conda_environment`` fills them in.
CONDA_PLACEHOLDERS = frozenset({"python"})
_PLACEHOLDER = re.compile(r"(?<!\$)\{([A-Za-z_][A-Za-z0-9_-]*)\}")
_PAIR = re.compile(r"\{[^{}]*\}")
_TAG = re.compile(r"(?:refs/tags/)?v(\d+(?:\.\d+)+(?:-?rc\d+)?)")
_ABI_FIXED_SINCE = Version("2.8")
_SPECIAL = {
    "runtime": "it is used when torch runs, not when it is built",
    "ci": "only upstream's CI uses it",
}


def lint(recipe: Recipe, read: Collection[str] = ()) -> tuple[list[str], list[str]]:
    """Return what is wrong with the build switches of a recipe for its release, and what may be.

    ``read`` are variables that the source tree of torch reads: it says so itself, and is right.
    """
    problems, warnings = [*placeholder_problems(recipe)], list[str]()
    for label, name, env in () if recipe.abstract else environments(recipe):
        problems += _problems(recipe, label, name, env, read)
        for key in [key for key in env if key not in switches() and key not in read]:
            for near in difflib.get_close_matches(key, switches(), n=1, cutoff=0.9):
                warnings.append(f"{label}: {key} is not a switch that is known; {near} is")
    if not recipe.abstract:
        problems += _abi(recipe)
    # What a variant inherits is reported once.
    return list(dict.fromkeys(problems)), list(dict.fromkeys(warnings))


def torch_release(recipe: Recipe) -> str | None:
    """Return the release whose switches count; None for a development branch."""
    torch = recipe.components.get("torch")
    if recipe.release is not None or torch is None:
        return recipe.release
    tag = _TAG.fullmatch(torch.source.ref or "") if torch.source is not None else None
    return torch.version or (tag[1] if tag is not None else None)


def _known_here(recipe: Recipe) -> bool:
    """Whether it is known which release of PyTorch a recipe builds: it names it, or follows a branch."""
    torch = recipe.components.get("torch")
    source = torch.source if torch is not None else None
    return torch_release(recipe) is not None or (source is not None and source.ref is not None)


def environments(recipe: Recipe) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield label, component and variables of each source build, as it is and under each of its variants."""
    for name, component in recipe.components.items():
        # Values for all components are torch's business; the others do not read its switches.
        own = {**(recipe.env if name == "torch" else {}), **component.build.env}
        places = {name: own}
        for variant, over in recipe.variants.items():
            if name in over.env:
                places[f"{name} (variant {variant})"] = {**own, **over.env[name]}
        for label, env in places.items() if component.kind == "source" else ():
            yield label, name, {key: str(value) for key, value in env.items()}


def _problems(
    recipe: Recipe, label: str, component: str, env: Mapping[str, str], read: Collection[str]
) -> Iterator[str]:
    release = torch_release(recipe)
    for name, value in env.items():
        switch = switches().get(name)
        if switch is None:
            continue
        unread = None if name in read else _unread(recipe, switch, component, release)
        if unread is not None:
            yield f"{label}: {name} is set, {unread}" + (f"; {switch.instead}" if switch.instead else "")
        else:
            yield from _value_problems(recipe, label, switch, value)
    if label == "torch" and _known_here(recipe):
        for switch in switches().values():
            if switch.explicit and switch.reads(release) and switch.name not in env:
                yield f"{label}: {switch.name} is not set; its default depends on the host ({switch.does})"


def _unread(recipe: Recipe, switch: Switch, component: str, release: str | None) -> str | None:
    if switch.kind == "foreign":
        return f"which PyTorch does not use: {switch.does}"
    if switch.kind in _SPECIAL:
        return f"but {_SPECIAL[switch.kind]}"
    elsewhere = switch.kind == "build" and switch.component != component
    if elsewhere or not _known_here(recipe) or switch.reads(release):
        return None
    return f"which {release or 'the development branch'} does not use ({switch.lines()})"


def _value_problems(recipe: Recipe, label: str, switch: Switch, value: str) -> Iterator[str]:
    known = {"arch": ",".join(recipe.arch), "cxx11_abi": str(recipe.abi.default)}
    for target in recipe.targets:
        filled = value
        for name, text in {**known, "xpu": "1" if target == "xpu" else "0"}.items():
            filled = filled.replace(f"{{{name}}}", text)
        if _PLACEHOLDER.search(filled):
            return  # it depends on the machine or on options
        stated = f"{label}: {switch.name}={filled}"
        misread = switch.misreadings(filled, torch_release(recipe)) if _known_here(recipe) else []
        yield from (f"{stated}: {why}" for why in misread)
        if not misread and not switch.accepts(filled):
            yield f"{stated} is not {switch.expects()}"
        elif switch.follows is not None and is_on(filled) != (switch.follows == target):
            yield f"{stated} for target {target}; write it as '{{{switch.follows}}}'"


def placeholder_problems(recipe: Recipe) -> Iterator[str]:
    """Yield what in a recipe looks like a placeholder and is none: key, name and the known names."""
    own = {name: PLACEHOLDERS | component.build.arch.keys() for name, component in recipe.components.items()}
    tables: list[tuple[str, str, Mapping[str, object]]] = [("env", "", recipe.env)]
    for name, component in recipe.components.items():
        tables.append((f"components.{name}.build.env", name, component.build.env))
        tables.append((f"components.{name}.build.config_settings", name, component.build.config_settings))
    for variant, over in recipe.variants.items():
        tables += [(f"variants.{variant}.env.{name}", name, env) for name, env in over.env.items()]
    for path, name, table in tables:
        values = ((f"{path}.{key}", value) for key, value in table.items())
        yield from _unknown(values, own.get(name, PLACEHOLDERS))
    conda = recipe.toolchain.conda
    packages = enumerate(conda.packages if conda is not None else ())
    yield from _unknown(((f"toolchain.conda.packages.{i}", item) for i, item in packages), CONDA_PLACEHOLDERS)


def _unknown(values: Iterable[tuple[str, object]], known: Collection[str]) -> Iterator[str]:
    names = ", ".join(f"{{{item}}}" for item in sorted(known))
    for path, value in values:
        for name in _PLACEHOLDER.findall(str(value)):
            if name not in known:
                yield f"{path}: '{{{name}}}' is not a placeholder; placeholders are {names}"
        rest = _PAIR.sub("", str(value))
        if "{" in rest or "}" in rest:
            yield f"{path}: '{value}' has an unmatched brace; placeholders are {names}"


def _abi(recipe: Recipe) -> Iterator[str]:
    torch = recipe.components.get("torch")
    release = torch_release(recipe) if torch is not None and torch.kind == "source" else None
    if release is not None and Version(release) >= _ABI_FIXED_SINCE:
        always = f"but {release} always builds the C++11 ABI 1 (since 2.8)"
        if recipe.abi.honoured:
            yield f"abi.honoured is true, {always}"
        if recipe.abi.default == 0:
            yield f"abi.default is 0, {always}"


def unused_switches(
    recipe: Recipe, kinds: Collection[str], caller: Mapping[str, str], passed_on: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the caller's variables that upstream would have read and that nothing in a plan gets.

    ``kinds`` are the kinds of variables that could matter to the plan (see ``switches.Kind``).
    """
    release = torch_release(recipe)
    mine = (item for item in switches().values() if item.kind in kinds and item.shell == "refused")
    named = (item.name for item in mine if item.reads(release))
    return tuple(sorted(name for name in named if name in caller and name not in passed_on))
