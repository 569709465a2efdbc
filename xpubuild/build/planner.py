"""The planner: a pure function from request and facts to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpubuild.build import env_steps, source_steps
from xpubuild.build.choose import check_host, choose
from xpubuild.build.context import Context
from xpubuild.build.request import Choice, Facts, Layout, Request
from xpubuild.engine.fingerprint import digest, fingerprints
from xpubuild.engine.model import Plan, Step


def requirement_names(request: Request, choice: Choice) -> tuple[str, ...]:
    """Return the hashed requirement files that the chosen components and tools need."""
    recipe = request.loaded.recipe
    names = list(recipe.toolchain.requirements)
    for name in choice.components:
        component = recipe.components[name]
        names += [component.requirements] if component.requirements else []
        names += component.build.requirements
    return tuple(dict.fromkeys(names))


def make_plan(request: Request, facts: Facts) -> Plan:
    """Return the plan.

    Raises:
        UsageError, UnsatisfiableError, RecipeError: what was asked for cannot be built; nothing was done.
    """
    choice = choose(request)
    check_host(request, choice, facts)
    context = Context(request, choice, facts, Layout(request.workspace))
    every = _steps(context)
    files = {str(context.requirement_path(name)): facts.requirements[name] for name in facts.requirements}
    return Plan(
        recipe=request.loaded.recipe.name,
        workspace=str(request.workspace),
        lock_digest=digest(inputs(context)),
        steps=every,
        fingerprints=fingerprints(every),
        files=files,
        summary=_summary(context),
    )


def _steps(context: Context) -> tuple[Step, ...]:
    every = [env_steps.environment_step(context)]
    base = ("env",)
    if context.recipe.toolchain.requirements:
        every.append(env_steps.toolchain_step(context))
        base = ("toolchain",)
    last_in_env = base
    last_of: dict[str, str] = {}
    for name in context.choice.components:
        component = context.component(name)
        needs = tuple(last_of[need] for need in component.needs)
        if component.kind == "wheel":
            # Two pips in one environment would undo each other: what installs there goes one after the other.
            every.append(
                env_steps.wheel_component_step(context, name, tuple(dict.fromkeys((*needs, *last_in_env))))
            )
            last_of[name] = name
        else:
            every += _source_steps(context, name, tuple(dict.fromkeys((*needs, *base))), last_in_env)
            last_of[name] = f"{name}.install"
        last_in_env = (last_of[name],)
    every.append(source_steps.verify_step(context, tuple(last_of.values()) or base))
    return tuple(every)


def _source_steps(
    context: Context, name: str, needs: tuple[str, ...], last_in_env: tuple[str, ...]
) -> list[Step]:
    source = source_steps.source_step(context, name)
    if context.request.editable:
        return [
            source,
            source_steps.editable_step(context, name, tuple(dict.fromkeys((*needs, *last_in_env)))),
        ]
    wheel = source_steps.wheel_step(context, name, needs)
    return [source, wheel, source_steps.install_step(context, name, last_in_env)]


def inputs(context: Context) -> Mapping[str, Any]:
    """Return everything that decides what is built, free of paths and times; the lock digest hashes it."""
    recipe, choice, facts = context.recipe, context.choice, context.facts
    return {
        "recipe": recipe.model_dump(
            mode="json", by_alias=True, exclude={"facts", "title"}, exclude_defaults=True
        ),
        "target": choice.target,
        "cxx11_abi": choice.cxx11_abi,
        "components": list(choice.components),
        "variant": choice.variant,
        "arch": list(choice.arch),
        "requirements": {name: digest(text) for name, text in facts.requirements.items()},
        "edits": dict(facts.dirty),
    }


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
        "arch": ", ".join(choice.arch) or "as upstream",
        "jobs": f"{facts.jobs} ({facts.jobs_reason})",
        "workspace": str(context.layout.root),
    }
