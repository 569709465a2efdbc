"""From the plan of an install to that of a rehearsal, which only configures PyTorch's build. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from xpubuild.artifacts.configure import ConfiguredProof
from xpubuild.engine.fingerprint import digest, fingerprints
from xpubuild.engine.model import Plan, Step
from xpubuild.engine.runner import needed_for
from xpubuild.errors import UsageError
from xpubuild.frozen import frozen
from xpubuild.install import front_end
from xpubuild.install.context import Context
from xpubuild.install.gate_steps import TORCH
from xpubuild.install.source_steps import built_tree_proof


@frozen
class Rehearsal:
    """A plan whose last step configures ``component``: the CMake of ``source``, in one of ``folders``."""

    plan: Plan
    component: str
    source: str
    folders: tuple[str, ...]
    environment: Mapping[str, str]

    @property
    def step(self) -> str:
        """The step that configures."""
        return self.plan.steps[-1].id


def rehearsal(context: Context, plan: Plan) -> Rehearsal:
    """Return what to run instead of ``plan`` to learn how PyTorch would be built.

    Raises:
        UsageError: the plan does not build PyTorch from source.
    """
    name = _torch(context)
    wheel = plan.step(f"{name}.wheel")
    scratch = str(context.layout.build / "rehearsal" / name)
    source = front_end.source_folder(context, name)
    folders = (f"{source}/build", scratch)
    before = tuple(step for step in needed_for(plan, wheel.id) if step.id != wheel.id)
    every = (*before, _configure(context, name, wheel, folders, {step.id for step in before}))
    return Rehearsal(
        plan=replace(
            plan,
            steps=every,
            fingerprints=fingerprints(every),
            lock_digest=digest({"rehearsal": plan.lock_digest}),
        ),
        component=name,
        source=source,
        folders=folders,
        environment=front_end.build_environment(context, name),
    )


def _torch(context: Context) -> str:
    for name in context.choice.components:
        component = context.component(name)
        if component.dist == TORCH and component.kind == "source":
            return name
    raise UsageError(
        f"recipe '{context.recipe.name}' does not build PyTorch from source",
        why="a rehearsal configures PyTorch's own build; what is prebuilt has none",
        fix="pass the recipe of a release",
        commands=("xpubuild recipes list",),
    )


def _configure(context: Context, name: str, wheel: Step, folders: tuple[str, ...], before: set[str]) -> Step:
    scratch = folders[-1]
    check, _ = wheel.commands
    relevant: dict[str, Any] = {**wheel.relevant, "rehearsal": True}
    return Step(
        id=f"{name}.configure",
        title=f"configure {context.component(name).dist}, without compiling",
        needs=wheel.needs,
        after=tuple(step for step in wheel.after if step in before),
        commands=(check, front_end.configure_command(context, name, scratch)),
        proofs=(
            built_tree_proof(context, name),
            ConfiguredProof(front_end.source_folder(context, name), folders),
        ),
        inputs=wheel.inputs,
        outputs=(scratch,),
        fresh=(scratch, front_end.bytecode(context, name)),
        relevant=relevant,
        watch=wheel.watch,
    )
