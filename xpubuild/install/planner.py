"""The planner: a pure function from request and facts to a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from xpubuild.engine.fingerprint import digest, fingerprints
from xpubuild.engine.model import Plan, Step
from xpubuild.install import (
    admission,
    archive_steps,
    compile_cache,
    compiler_steps,
    env_steps,
    freeze_steps,
    front_end,
    gate_steps,
    source_steps,
)
from xpubuild.install.choose import check_host, choose
from xpubuild.install.context import Context
from xpubuild.install.portable_steps import portable_step
from xpubuild.install.repository_steps import configured, repositories_step
from xpubuild.install.request import Choice, Facts, Request
from xpubuild.install.sharing import share_jobs
from xpubuild.machine.envmark import check_name
from xpubuild.recipe.model import Recipe
from xpubuild.workspace.layout import Layout

if TYPE_CHECKING:
    from xpubuild.install.conda_steps import CondaFacts


#: Keys of a recipe that do not decide what is built: what it says of hosts, of other releases and of itself,
#: and what stands in the inputs as chosen.
_NOT_INPUTS: dict[str, Any] = {
    **dict.fromkeys(("title", "extends", "abstract", "patches", "target", "targets", "abi", "arch"), True),
    **dict.fromkeys(("arch_upstream", "loses", "refuses", "toolkits", "costs", "facts"), True),
    "needs": {"disk_gib", "drivers", "gpus"},
    "components": {
        "__all__": {
            **dict.fromkeys(("optional", "targets", "end_of_life"), True),
            "build": {"compile_cache", "launcher", "unit_memory", "large_units"},
        }
    },
}


def requirement_names(request: Request, choice: Choice) -> tuple[str, ...]:
    """Return the hashed requirement files that the chosen components and tools need."""
    recipe = request.loaded.recipe
    names = list(recipe.toolchain.requirements)
    for name in choice.components:
        component = recipe.components[name]
        names += [component.requirements] if component.requirements else []
        names += component.build.requirements
    return tuple(dict.fromkeys(names))


def make_context(request: Request, facts: Facts, choice: Choice | None = None) -> Context:
    """Return what the steps are made from; ``choice`` where the request was held against the recipe already.

    Raises:
        UsageError, UnsatisfiableError, RecipeError: what was asked for cannot be built; nothing was done.
    """
    chosen, layout = choice or choose(request), Layout(request.workspace)
    check_name(layout.env)
    return Context(request, chosen, facts, layout, check_host(request, chosen, facts))


def make_plan(context: Context) -> Plan:
    """Return the plan.

    Raises:
        RecipeError: a source has no commit.
    """
    request = context.request
    every = gate_steps.watched(context, _steps(context))
    return Plan(
        recipe=request.loaded.recipe.name,
        workspace=str(request.workspace),
        lock_digest=digest(inputs(context)),
        steps=every,
        fingerprints=fingerprints(every),
        files=_files(context),
        summary={**_summary(context), **_constraints(context)},
    )


def _steps(context: Context) -> tuple[Step, ...]:
    every = _environment(context)
    base = (every[-1].id, *compiler_steps.needed(context))
    every += [*compiler_steps.steps(context), *compile_cache.steps(context)]
    order = _installing(context)
    last_of: dict[str, str] = {}
    for name in context.choice.components:
        component = context.component(name)
        needs = tuple(dict.fromkeys((*(last_of[need] for need in component.needs), *base)))
        if component.kind == "wheel":
            every.append(env_steps.wheel_component_step(context, name, needs, order[name]))
        else:
            every += _source_steps(context, name, needs, order)
        last_of[name] = every[-1].id
    last = list(order)[-1:]
    every = [env_steps.with_components_proof(context, step) if step.id in last else step for step in every]
    every.append(source_steps.verify_step(context, tuple(last_of.values()) or base))
    return share_jobs(_at_rest(context, every), context.facts.jobs)


def _environment(context: Context) -> list[Step]:
    """Return the steps that make the environment and put the tools of every build into it."""
    conda = _conda(context)
    if conda is not None:
        return conda.steps(context)
    every = [env_steps.environment_step(context)]
    return [*every, env_steps.toolchain_step(context)] if context.recipe.toolchain.requirements else every


def _conda(context: Context) -> CondaFacts | None:
    text = context.facts.conda_lock
    if text is None:
        return None
    # Most environments are not of conda, and its packages are the largest import of planning.
    from xpubuild.install.conda_steps import CondaFacts  # noqa: PLC0415

    return CondaFacts(text)


def _levels(context: Context) -> list[list[str]]:
    """Return the components in groups: what one needs is in a group before it."""
    levels: dict[str, int] = {}
    for name in context.choice.components:
        needs = context.component(name).needs
        levels[name] = max((levels[need] + 1 for need in needs), default=0)
    return [[name for name in levels if levels[name] == level] for level in sorted(set(levels.values()))]


def _at_rest(context: Context, steps: Sequence[Step]) -> list[Step]:
    """Keep installations and builds in the same environment from running at the same time.

    A build maps libraries of the environment and reads its modules for minutes; if pip replaces such a file,
    the build dies of a bus error or continues with half of another version.
    """
    after: dict[str, tuple[str, ...]] = {}
    for group in _levels(context):
        builds = [f"{name}.wheel" for name in group]
        before = [name for name in group if context.component(name).kind == "wheel"]
        before += [f"{name}.requirements" for name in group]
        after |= dict.fromkeys(builds, tuple(before))
        after |= {f"{name}.install": tuple(builds) for name in group}
    known = {step.id for step in steps}
    return [
        replace(step, after=tuple(dict.fromkeys((*step.after, *more))))
        if (more := [name for name in after.get(step.id, ()) if name in known and name not in step.needs])
        else step
        for step in steps
    ]


def _installing(context: Context) -> Mapping[str, tuple[str, ...]]:
    """Return for each step that runs pip in the environment the one before it.

    Two pips in one environment would undo each other, so they go one after the other: first what must be
    there for a build, then what was built.
    """
    chain: list[str] = []
    for names in _levels(context):
        group = {name: context.component(name) for name in names}
        chain += [name for name, component in group.items() if component.kind == "wheel"]
        sources = {name: component for name, component in group.items() if component.kind == "source"}
        chain += [f"{name}.requirements" for name, item in sources.items() if item.build.requirements]
        chain += [f"{name}.install" for name in sources]
    return {step: tuple(chain[index - 1 : index]) for index, step in enumerate(chain)}


def _source_steps(
    context: Context, name: str, needs: tuple[str, ...], order: Mapping[str, tuple[str, ...]]
) -> list[Step]:
    steps = [source_steps.source_step(context, name)]
    if configured(context, name):
        steps.append(repositories_step(context, name, source_steps.pin_of(context, name).commit))
        needs = (*needs, steps[-1].id)
    archives = archive_steps.archives_step(context, name)
    if archives is not None:
        steps.append(archives)
        needs = (*needs, archives.id)
    requirements = f"{name}.requirements"
    if requirements in order:
        steps.append(env_steps.requirements_step(context, name, needs, order[requirements]))
        needs = (*needs, requirements)
    after = order[f"{name}.install"]
    if context.request.editable:
        return [*steps, source_steps.editable_step(context, name, needs, after)]
    wheel = source_steps.wheel_step(context, name, needs)
    portable = [portable_step(context, name)] if context.request.portable else []
    return [*steps, wheel, *portable, source_steps.install_step(context, name, after)]


def _files(context: Context) -> dict[str, str]:
    """Return the texts that commands read: requirements, constraints, and where setuptools builds."""
    texts, conda = dict(context.facts.requirements), _conda(context)
    if conda is not None:
        texts.update(conda.requirements(context))
    files = {str(context.requirement_path(name)): text for name, text in texts.items()}
    if conda is not None:
        files.update(conda.files(context))
    files.update(freeze_steps.known_beforehand(context))
    files.update(compiler_steps.files(context))
    files.update(admission.files(context))
    for name in context.choice.components:
        if context.component(name).kind == "source":
            files.update(front_end.scratch_config(context, name))
    return files


def inputs(context: Context) -> Mapping[str, Any]:
    """Return everything that decides what is built, free of paths and times; the lock digest hashes it."""
    recipe, choice, facts = context.recipe, context.choice, context.facts
    return {
        "recipe": _said_of(recipe, choice),
        "target": choice.target,
        "cxx11_abi": choice.cxx11_abi,
        "components": list(choice.components),
        "variant": choice.variant,
        "arch": list(choice.arch),
        "requirements": {name: digest(text) for name, text in facts.requirements.items()},
        "edits": dict(facts.dirty),
        "resolved": {name: item.commit for name, item in facts.resolved.items()},
        **({"conda": conda.digest} if (conda := _conda(context)) is not None else {}),
    }


def _said_of(recipe: Recipe, choice: Choice) -> dict[str, Any]:
    """Return what a recipe says of what was chosen: a component or variant beside it changes nothing."""
    said = recipe.model_dump(mode="json", by_alias=True, exclude=_NOT_INPUTS, exclude_defaults=True)
    said["components"] = {name: said["components"][name] for name in sorted(choice.components)}
    said.pop("variants", None)
    if choice.variant is not None:
        over = recipe.variants[choice.variant].env
        said["variants"] = {choice.variant: {name: over[name] for name in choice.components if name in over}}
    said["verify"] = {
        "suite": recipe.verify.suite,
        "require": [name for name in recipe.verify.require if name in choice.components],
    }
    return said


def _summary(context: Context) -> dict[str, Any]:
    recipe, choice, facts = context.recipe, context.choice, context.facts
    torch = recipe.components.get("torch")
    return {
        "recipe": f"{recipe.name}: {recipe.title}",
        "target": choice.target,
        "components": ", ".join(choice.components),
        "torch": (torch.version if torch else None) or "from source",
        "python": f"{facts.python_version} ({facts.python})",
        "compilers": f"{facts.compilers.cxx} {facts.compilers.version}",
        "cxx11_abi": choice.cxx11_abi,
        "variant": choice.variant or "as the recipe",
        # AOT targets are a matter of GPUs: a build for the CPU ignores them.
        **({"arch": ", ".join(choice.arch) or "as upstream"} if choice.target == "xpu" else {}),
        "jobs": f"{facts.jobs} ({facts.jobs_reason})",
        **compile_cache.summary(context),
        **({"packages": told} if (told := facts.installer.told()) else {}),
        "resolved": [
            f"{name}: {item.ref} is {item.commit} (looked up {item.when})"
            for name, item in facts.resolved.items()
        ],
        "workspace": str(context.layout.root),
        "warnings": [*facts.warnings, *(facts.oneapi.warnings if facts.oneapi else ())],
    }


def _constraints(context: Context) -> dict[str, Any]:
    """Return what the solver says of this build: why this release, what it lacks, what is worth knowing."""
    verdict = context.verdict
    found: dict[str, Any] = {
        "chosen": context.facts.chosen,
        "loses": [lost.text for lost in verdict.loses],
        "notes": [f"{note.text} ({note.todo})" if note.todo else note.text for note in verdict.notes()],
        "not_known": [reason.text for reason in verdict.open_questions()],
    }
    return {name: value for name, value in found.items() if value}
