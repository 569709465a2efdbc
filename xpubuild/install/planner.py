"""From a target to its plan, a pure function."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from packaging.version import InvalidVersion, Version

from xpubuild.artifacts.gate_rules import Expectation
from xpubuild.artifacts.gate_watcher import WatchStep
from xpubuild.artifacts.step_proofs import XpuInstalledProof, XpuWheelProof
from xpubuild.engine.fingerprint import digest, fingerprints
from xpubuild.engine.model import XPUBUILD, Plan, Step
from xpubuild.install import build_steps, environment_steps, source_steps
from xpubuild.install.build_compilers import compiler_files, links_steps
from xpubuild.install.build_jobs import launcher_files, one_by_one
from xpubuild.install.build_steps import TORCH, source_folder, targets_in, wants_xpu
from xpubuild.install.choose import situation_of
from xpubuild.install.source_steps import configured
from xpubuild.install.target import OneapiFacts, Target
from xpubuild.machine.oneapi_bundles import COMPILER

#: Keys of a recipe that do not decide what is built: what it says of hosts, of other releases and of itself,
#: and what stands in the inputs as chosen.
_NOT_INPUTS: dict[str, Any] = {
    **dict.fromkeys(("title", "extends", "abstract", "patches", "target", "targets", "abi", "arch"), True),
    **dict.fromkeys(("arch_upstream", "loses", "refuses", "toolkits", "costs", "facts"), True),
    "needs": {"disk_gib", "drivers", "gpus", "loader"},
    "components": {
        "__all__": {
            **dict.fromkeys(("optional", "targets", "end_of_life", "gives", "check"), True),
            "build": {"compile_cache", "launcher", "unit_memory", "large_units"},
        }
    },
}


def make_plan(target: Target) -> Plan:
    """Return the plan.

    Raises:
        RecipeError: a source has no commit.
    """
    every = watched(target, _steps(target))
    name, root, own = target.recipe.name, str(target.layout.root), digest(inputs(target))
    return Plan(name, root, own, every, fingerprints(every), _files(target), _summary(target))


def _steps(target: Target) -> tuple[Step, ...]:
    every = _environment(target)
    links, cache = links_steps(target)
    base = (every[-1].id, *(step.id for step in links))
    every += [*links, *cache]
    last_of: dict[str, str] = {}
    for name in target.components:
        component = target.component(name)
        needs = tuple(dict.fromkeys((*(last_of[need] for need in component.needs), *base)))
        if component.kind == "wheel":
            every.append(environment_steps.wheel_component_step(target, name, needs))
        else:
            every += _source_steps(target, name, needs)
        last_of[name] = every[-1].id
    if not target.options.quick:
        every.append(build_steps.verify_step(target, tuple(last_of.values()) or base))
    return one_by_one(_in_order(target, every))


def _environment(target: Target) -> list[Step]:
    """Return the steps that make the environment and put the tools of every build into it."""
    if target.conda_lock is not None:
        # Most environments are not of conda, and its packages are the largest import of planning.
        from xpubuild.install.conda_environment import conda_steps  # noqa: PLC0415

        return conda_steps(target)
    tools = [environment_steps.toolchain_step(target)] if target.recipe.toolchain.requirements else []
    return [environment_steps.environment_step(target), *tools]


def _in_order(target: Target, steps: Sequence[Step]) -> list[Step]:
    """Keep installations and builds in the same environment from running at the same time.

    Two pips in one environment would undo each other, so they go one after the other: first what must be
    there for a build, then what was built. A build maps libraries of the environment and reads its modules
    for minutes; if pip replaces one, it dies of a bus error or continues with half of another version.
    """
    known, levels = {step.id for step in steps}, dict[str, int]()
    for name in target.components:
        levels[name] = max((levels[need] + 1 for need in target.component(name).needs), default=0)
    after, last = dict[str, list[str]](), list[str]()
    for level in sorted(set(levels.values())):
        group = [name for name in levels if levels[name] == level]
        before = [name for name in group if name in known]
        before += [step for name in group if (step := f"{name}.requirements") in known]
        builds = [step for name in group if (step := f"{name}.wheel") in known]
        after |= dict.fromkeys(builds, before)
        for step in (*before, *(f"{name}.install" for name in group if f"{name}.install" in known)):
            after[step] = [*last, *(builds if step.endswith(".install") else ())]
            last = [step]
    ordered = [
        replace(step, after=tuple(name for name in after.get(step.id, ()) if name not in step.needs))
        for step in steps
    ]
    # After the last installation nothing may be missing.
    proof = environment_steps.components_proof(target)
    return [replace(step, proofs=(*step.proofs, proof)) if [step.id] == last else step for step in ordered]


def _source_steps(target: Target, name: str, needs: tuple[str, ...]) -> list[Step]:
    steps = [source_steps.source_step(target, name)]
    if configured(target, name):
        steps.append(source_steps.repositories_step(target, name))
    archives = source_steps.archives_step(target, name)
    steps += [archives] if archives is not None else []
    needs = (*needs, *(step.id for step in steps[1:]))
    if target.component(name).build.requirements:
        steps.append(environment_steps.requirements_step(target, name, needs))
        needs = (*needs, steps[-1].id)
    if target.options.editable:
        return [*steps, build_steps.editable_step(target, name, needs)]
    wheel, install = build_steps.wheel_step(target, name, needs), build_steps.install_step(target, name)
    return [*steps, wheel, install]


def _files(target: Target) -> dict[str, str]:
    """Return the texts that commands read: requirements, constraints, and where setuptools builds."""
    files = {str(target.requirement_path(name)): text for name, text in target.requirements.items()}
    if target.conda_lock is not None:
        from xpubuild.install.conda_environment import conda_files  # noqa: PLC0415 - for few

        files |= conda_files(target)
    files |= {
        **environment_steps.known_beforehand(target),
        **compiler_files(target),
        **launcher_files(target),
        **source_steps.git_files(target),
        **build_steps.check_files(target),
        **environment_steps.rebuild_files(target),
    }
    for name in target.components:
        if target.component(name).kind == "source":
            files |= {**build_steps.scratch_config(target, name), **source_steps.handed_over(target, name)}
    return files


def inputs(target: Target) -> Mapping[str, Any]:
    """Return everything that decides what is built, free of paths and times; the lock digest hashes it."""
    found = {
        **{key: getattr(target, key) for key in ("cxx11_abi", "components", "variant", "arch")},
        "recipe": _of_recipe(target), "target": target.device, "edits": dict(target.dirty),
        "requirements": {name: digest(text) for name, text in target.requirements.items()},
        "resolved": {name: item.commit for name, item in target.resolved.items()},
    }  # fmt: skip
    if target.conda_lock is not None:
        from xpubuild.supply.conda.lockfile import read_lock  # noqa: PLC0415 - for few

        found["conda"] = read_lock(target.conda_lock).digest
    return found


def _of_recipe(target: Target) -> dict[str, Any]:
    """Return what the recipe says of what was chosen: a component or variant beside it changes nothing."""
    recipe = target.recipe
    found = recipe.model_dump(mode="json", by_alias=True, exclude=_NOT_INPUTS, exclude_defaults=True)
    found["components"] = {name: found["components"][name] for name in sorted(target.components)}
    found.pop("variants", None)
    if target.variant is not None:
        over = recipe.variants[target.variant].env
        found["variants"] = {target.variant: {name: over[name] for name in target.components if name in over}}
    required = [name for name in recipe.verify.require if name in target.components]
    found["verify"] = {"suite": recipe.verify.suite, "require": required}
    return found


def _of_xpu(target: Target) -> dict[str, str]:
    """Return which oneAPI builds, with its compiler, and the driver that is assumed to run the result."""
    facts, here, allowed = target.oneapi, situation_of(target).driver, target.recipe.needs.drivers
    shown = {"driver": f"{here}, of this host" if here else f"not of this host: {' or '.join(allowed)}"}
    if facts is None:
        return shown
    places = [str(item.get("path")) for item in facts.components if item.get("name") == COMPILER]
    return {"oneapi": f"{places[0] if places else 'found'}, icpx {facts.compiler_version}", **shown}


#: What a plan says where there is none of it, too.
_ALWAYS = frozenset({"cxx11_abi", "resolved", "warnings"})


def _summary(target: Target) -> dict[str, Any]:
    """Return what people want to know of a plan; why this release, what it lacks, what is worth knowing."""
    torch, cache, verdict = target.recipe.components.get("torch"), target.compile_cache, target.verdict
    no_cache = f"none ({target.no_compile_cache})" if target.no_compile_cache else ""
    resolved = [
        f"{name}: {item.ref} is {item.commit} (looked up {item.when})"
        for name, item in target.resolved.items()
    ]
    resolved += [
        f"{item.url} is patched: {item.commit} with tree {item.tree} is made of {item.base}"
        for item in target.patched.values()
    ]
    shown = {
        "recipe": f"{target.recipe.name}: {target.recipe.title}",
        "target": target.device,
        "components": ", ".join(target.components),
        "torch": (torch.version if torch else None) or "from source",
        "python": f"{target.python_version} ({target.python})",
        "compilers": f"{target.compilers.cxx} {target.compilers.version}",
        **(_of_xpu(target) if target.device == "xpu" else {}),
        "cxx11_abi": target.cxx11_abi,
        "variant": target.variant or "as the recipe",
        "arch": (", ".join(target.arch) or "as upstream") if target.device == "xpu" else "",
        "jobs": f"{target.jobs} ({target.jobs_reason})",
        "compile_cache": f"ccache ({cache.place})" if cache is not None else no_cache,
        "packages": target.installer.summary(),
        "resolved": resolved,
        "edits": [f"{name}: {tree.summary()}" for name, tree in target.trees.items()],
        "torch_tree": str(target.tree("torch")) if target.own("torch") else "",
        "workspace": str(target.layout.root),
        "warnings": [*target.warnings, *(target.oneapi.warnings if target.oneapi else ())],
        "chosen": target.why,
        "loses": [lost.text for lost in verdict.loses],
        "notes": [f"{note.text} ({note.todo})" if note.todo else note.text for note in verdict.notes()],
        "not_known": [reason.text for reason in verdict.open_questions()],
    }
    return {name: value for name, value in shown.items() if value or name in _ALWAYS}


# --- the XPU gate, which stops a build that has lost XPU support, and explain ----------------------------


def watched(target: Target, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with their watchers and, where PyTorch is for XPU, with the proofs that it is.

    It is built as a wheel and installed, installed editable in one step, or taken prebuilt. The gate looks on
    as it is built; as a wheel is built for the CPU too, where XPU may have been left switched on.
    """
    name = next((name for name in target.components if target.component(name).dist == TORCH), "")
    known = {step.id: step for step in steps}
    wheel, install = known.get(f"{name}.wheel"), known.get(f"{name}.install", known.get(name))
    builder = wheel or install
    env = builder.commands[-1].env if builder is not None else {}
    for_xpu, found = target.device == "xpu" and wants_xpu(env), list[Step]()
    for step in steps:
        proofs = step.proofs
        if for_xpu and step is install:
            facts = target.oneapi or OneapiFacts()
            python, version = str(target.layout.python), env.get("PYTORCH_BUILD_VERSION")
            own = XpuInstalledProof(python, targets_in(env), version, dict(facts.env), facts.path_prefix)
            proofs = (*proofs, own)
        if for_xpu and step is wheel and step.publish is not None:
            proofs = (*proofs, XpuWheelProof(step.publish.stage))
        builds_xpu = for_xpu and step is builder and step.id != name
        gated = builds_xpu or (step is wheel and not wants_xpu(env))
        watch = _gate(target, name, env) if gated else _watch(target, step)
        found.append(replace(step, watch=watch, proofs=proofs))
    return tuple(found)


def _watch(target: Target, step: Step) -> WatchStep | None:
    # A child xpubuild explains itself; what it runs is no build.
    if all(command.argv[0] == XPUBUILD for command in step.commands):
        return None
    env = {key: value for command in step.commands for key, value in command.env.items()}
    name = step.id.rpartition(".")[0]
    closed = name in target.components and target.component(name).build.against is not None
    on = target.device == "xpu" and wants_xpu(env)
    return WatchStep(xpu=on, recipe=target.recipe.name, closed=name if closed else "")


def _gate(target: Target, name: str, env: Mapping[str, str]) -> WatchStep:
    release = None
    with contextlib.suppress(InvalidVersion):
        release = str(Version(target.recipe.release or env.get("PYTORCH_BUILD_VERSION", "")))
    folder, mkl = source_folder(target, name), target.recipe.toolchain.mkl is not None
    expected = Expectation(release, dict(env), folder, str(target.layout.env), mkl)
    return WatchStep(xpu=wants_xpu(env), recipe=target.recipe.name, expected=expected)
