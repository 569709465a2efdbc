"""Holds options against a recipe, and both against a host: components, device, ABI, variant. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from xpubuild.errors import RecipeError, UnsatisfiableError, UsageError
from xpubuild.install.options import Options, default_workspace
from xpubuild.install.release import refused
from xpubuild.install.target import Choice, Target
from xpubuild.machine.host_report import HostReport
from xpubuild.recipe.aot_targets import targets_for
from xpubuild.recipe.choices import target_of
from xpubuild.recipe.compatible_host import CMAKE_ID, of_host, oneapi_versions
from xpubuild.recipe.constraints import solve
from xpubuild.recipe.lint import placeholder_problems
from xpubuild.recipe.load import component_files, requirement_file
from xpubuild.recipe.model import Archive, Component, LoadedRecipe, Recipe
from xpubuild.recipe.situation import Situation, Verdict
from xpubuild.recipe.values import Target as Device
from xpubuild.resources import docs_page
from xpubuild.supply.git.worktree import find_git_dir
from xpubuild.supply.requirements import pinned
from xpubuild.workspace.layout import Layout
from xpubuild.workspace.moved import place_of


def choose(options: Options, loaded: LoadedRecipe) -> Choice:
    """Return what will be built.

    Raises:
        UsageError: an option names something the recipe does not have, or two cannot be combined.
        RecipeError: a value has an unknown placeholder.
        UnsatisfiableError: the recipe cannot be built as asked.
    """
    recipe, variant = loaded.recipe, options.variant
    if recipe.abstract:
        what = f"recipe '{recipe.name}' can only be extended, not built"
        raise UsageError(what, fix="choose a recipe that can be built", commands=("xpubuild recipes list",))
    if problems := list(placeholder_problems(recipe)):
        why = "; ".join(problems)
        fix = f"correct these keys; {docs_page('reference/recipe.md')} explains the placeholders"
        raise RecipeError(f"the recipe {loaded.path} has an unknown placeholder", why=why, fix=fix)
    if variant is not None and variant not in recipe.variants:
        why = "it has " + (", ".join(recipe.variants) or "none")
        fix = "omit --variant, or use one of these" if recipe.variants else "omit --variant"
        raise UsageError(f"recipe '{recipe.name}' has no variant '{variant}'", why=why, fix=fix)
    device = target_of(recipe, options.target)
    components = _components(options, recipe, device)
    layout = Layout(place_of(options.workspace or default_workspace(recipe.name)))
    abi = recipe.abi.default if options.abi is None else options.abi
    arch = options.named_arch or tuple(recipe.arch)
    switches = {name: _switches(recipe, name, variant) for name in components}
    choice = Choice(options, loaded, layout, device, abi, components, variant, arch, switches)
    _require_possible(choice)
    _require_archives(choice)
    for name, folder in options.source_dir.items():
        if name not in components or recipe.components[name].source is None:
            built = [item for item in components if recipe.components[item].source]
            what = f"--source-dir {name}={folder}: recipe '{recipe.name}' builds no '{name}' from source"
            raise UsageError(what, fix=f"use one of its components: {', '.join(built) or 'it has none'}")
        root, top = choice.layout.root.resolve(), folder.resolve()
        if find_git_dir(folder) is None or root.is_relative_to(top) or top.is_relative_to(root):
            raise UsageError(
                f"--source-dir {name}={folder} cannot be used",
                why="it is not the top folder of a git checkout, or the workspace is in it or around it",
                fix="pass the folder of your checkout, and a --workspace elsewhere; what is in src/ of a"
                " workspace needs --allow-dirty",
            )
    return choice


def for_gpus_here(choice: Choice, host: HostReport) -> Choice:
    """Return the choice with the AOT targets of the GPUs of this host, where none were named (`auto`)."""
    if choice.device != "xpu" or choice.options.named_arch:
        return choice
    listed, found = choice.recipe.arch, targets_for(choice.recipe, of_host(host))
    return choice if found == tuple(listed or choice.recipe.arch_upstream) else replace(choice, arch=found)


def _require_possible(choice: Choice) -> None:
    """Refuse AOT targets and a C++ ABI that the build can have on no host."""
    recipe, device, asked = choice.recipe, choice.device, choice.options.named_arch
    if asked and device != "xpu":
        other = ", or build for the GPU with --target xpu" if "xpu" in recipe.targets else ""
        what = f"--arch {','.join(asked)} is only for the GPU, but the target of this build is {device}"
        why = "AOT targets name GPUs that SYCL kernels are compiled for; a build for the CPU has none"
        raise UsageError(what, why=why, fix=f"omit --arch (XPUBUILD_ARCH is the same option){other}")
    wanted = Situation(target=device, arch=asked or None, components=choice.components)
    found = solve(recipe, replace(wanted, cxx11_abi=choice.options.abi))
    against = tuple(item for item in found.against() if item.constraint in ("arch", "cxx11_abi"))
    if against:
        raise refused(recipe, replace(found, builds="no", reasons=against))


def _components(options: Options, recipe: Recipe, device: Device) -> tuple[str, ...]:
    """Return the components that are built, each after what it needs: a recipe has no circles."""
    for name in (*options.with_, *options.without):
        if name not in recipe.components:
            raise UsageError(
                f"recipe '{recipe.name}' has no component '{name}'",
                why=f"its components are: {', '.join(recipe.components)}; with a file of their own: "
                + (", ".join(sorted(component_files())) or "none"),
                fix="use these names with --with and --without",
            )
    both = ", ".join(sorted(set(options.with_) & set(options.without)))
    if both:
        raise UsageError(f"{both} is in both --with and --without", fix="list it in only one of them")
    for name in options.with_:
        targets = recipe.components[name].targets
        if device not in targets:
            why = f"recipe '{recipe.name}' has it only for {', '.join(targets)}"
            fix = f"remove {name} from --with, or use --target {targets[0]}"
            raise UnsatisfiableError(f"'{name}' is not built for target {device}", why=why, fix=fix)
    asked = list(options.with_)
    for name in asked:  # it grows: a component is taken with what it needs
        asked += [need for need in recipe.components[name].needs if need not in asked]
    possible = {name: item for name, item in recipe.components.items() if device in item.targets}
    chosen = [name for name in possible if name in asked or _by_default(recipe, possible[name], options)]
    waiting = [name for name in chosen if name not in options.without]
    for name in waiting:
        needs = recipe.components[name].needs
        missing = [need for need in needs if need not in waiting]
        if missing:
            why = f"the recipe says that {name} needs {', '.join(needs)}"
            fix = f"exclude both: --without {missing[0]},{name}"
            raise UnsatisfiableError(f"'{name}' cannot be built without '{missing[0]}'", why=why, fix=fix)
    ordered: list[str] = []
    while waiting:
        ready = [name for name in waiting if all(need in ordered for need in recipe.components[name].needs)]
        # What cannot be had fails in minutes, not after hours.
        ordered.extend(sorted(ready, key=lambda name: recipe.components[name].kind != "wheel"))
        waiting = [name for name in waiting if name not in ready]
    return tuple(ordered)


def _by_default(recipe: Recipe, component: Component, options: Options) -> bool:
    if component.instead_of is None:
        return not component.optional
    asked = component.instead_of in (*options.with_, *options.without)
    return not asked and recipe.components[component.instead_of].optional


def for_python(choice: Choice, python_version: str) -> Choice:
    """Return the choice without what would be taken prebuilt by default, and is not there for this Python.

    Raises:
        UnsatisfiableError: it was asked for by name.
    """
    gone = set[str]()
    for name in choice.components:
        component = choice.component(name)
        if component.instead_of is not None and component.requirements is not None:
            text = requirement_file(choice.loaded, component.requirements).read_text("utf-8")
            if component.dist not in dict(pinned(text, python_version)):
                gone.add(name)
    for name in gone.intersection(choice.options.with_):
        other = choice.component(name).instead_of
        raise UnsatisfiableError(
            f"no wheel of {choice.component(name).dist} is known for Python {python_version}",
            why=f"{choice.component(name).requirements} has none",
            fix=f"build it from source with --with {other}, or use another Python",
        )
    return replace(choice, components=tuple(name for name in choice.components if name not in gone))


def _switches(recipe: Recipe, name: str, variant: str | None) -> Mapping[str, str]:
    over = recipe.variants[variant].env.get(name, {}) if variant else {}
    merged = {**recipe.env, **recipe.components[name].build.env, **over}
    return {key: str(value) for key, value in merged.items()}


def needed_archives(choice: Choice, name: str) -> dict[str, Archive]:
    """Return the archives of a component's build by name, without those that the user replaces.

    A variable with a value of its own, such as LLVM_SYSPATH in a site's recipe, names what is there already.
    """
    given = choice.switches[name]
    archives = choice.component(name).build.archives
    return {key: item for key, item in archives.items() if not given.get(item.variable)}


def _require_archives(choice: Choice) -> None:
    """Refuse a build that would download what is no longer there."""
    recipe = choice.recipe.name
    for name in choice.components:
        for key, item in needed_archives(choice, name).items():
            if choice.component(name).kind == "source" and item.gone:
                of = f" built from commit {item.commit}" if item.commit else ""
                raise UnsatisfiableError(
                    f"'{name}' of recipe '{recipe}' cannot be built: its {key} can no longer be downloaded",
                    why=f"{item.url}: {item.gone}",
                    fix=f"omit --with {name}; or write a recipe that extends '{recipe}' and sets components."
                    f"{name}.build.env.{item.variable} to a folder with your own {key}{of}",
                )


def situation_of(target: Target) -> Situation:
    """Return the host as one build sees it: with its interpreter, compiler and oneAPI."""
    known, asked, kind = target.situation, target.options.named_arch, target.compilers.kind
    if asked and known.gpu_targets and not set(asked) & set(known.gpu_targets):
        # Named targets that are not this machine's: it is built for another one, whose driver we do not see.
        known = replace(known, gpu=None, driver=None, loader=None)
    oneapi = known.oneapi
    if target.oneapi is not None:
        used = [(str(item.get("name")), str(item.get("version"))) for item in target.oneapi.components]
        oneapi = oneapi_versions(used) or None
    return replace(
        known, target=target.device, oneapi=oneapi, python=(target.python_version,),
        gcc=target.compilers.version if kind in ("gcc", None) else None,
        host_compiler=CMAKE_ID.get(kind or "gcc", kind), cxx11_abi=target.options.abi,
        arch=target.arch or None, components=target.components,
    )  # fmt: skip


def check_host(target: Target) -> Verdict:
    """Check the recipe's requirements against the host, and return the verdict of the constraint solver.

    Raises:
        UnsatisfiableError: naming what was found and what is needed.
    """
    verdict = solve(target.recipe, situation_of(target))
    if verdict.refused:
        raise refused(target.recipe, verdict)
    return verdict
