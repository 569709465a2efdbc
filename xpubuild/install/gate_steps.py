"""Adds the XPU gate, which stops a build that has lost XPU support, and explain to a plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from packaging.version import InvalidVersion, Version

from xpubuild.artifacts.expectation import Expectation
from xpubuild.artifacts.gate_watcher import WatchStep
from xpubuild.artifacts.xpu_proofs import XpuInstalledProof, XpuWheelProof
from xpubuild.engine.model import XPUBUILD, Step
from xpubuild.install import aot
from xpubuild.install.context import Context

TORCH = "torch"


def watched(context: Context, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with their watchers and, where PyTorch is for XPU, with the proofs that it is."""
    torch = [name for name in context.choice.components if context.component(name).dist == TORCH]
    gated: dict[str, Step] = {}
    if torch and context.choice.target == "xpu":
        gated = _gated(context, torch[0], {step.id: step for step in steps})
    return tuple(gated.get(step.id) or _watched(context, step) for step in steps)


def _watched(context: Context, step: Step) -> Step:
    # A child xpubuild explains itself; what it runs is no build.
    if all(command.argv[0] == XPUBUILD for command in step.commands):
        return step
    env = {key: value for command in step.commands for key, value in command.env.items()}
    xpu = context.choice.target == "xpu" and aot.wants_xpu(env)
    return replace(step, watch=WatchStep(xpu=xpu, recipe=context.recipe.name))


def _gated(context: Context, name: str, steps: Mapping[str, Step]) -> dict[str, Step]:
    """Return the steps that build and install PyTorch: the gate looks on, and proofs look at the result.

    It is built as a wheel and installed, installed editable in one step, or taken prebuilt.
    """
    wheel, install = steps.get(f"{name}.wheel"), steps.get(f"{name}.install", steps.get(name))
    if install is None:
        return {}
    builder = wheel or install
    env = builder.commands[-1].env
    if not aot.wants_xpu(env):
        return {}
    watch = _watched(context, builder).watch if install.id == name else _gate(context, name, env)
    own = watch if builder is install else _watched(context, install).watch
    gated = {install.id: replace(install, watch=own, proofs=(*install.proofs, _installed(context, env)))}
    if wheel is not None and wheel.publish is not None:
        proofs = (*wheel.proofs, XpuWheelProof(wheel.publish.stage))
        gated[wheel.id] = replace(wheel, watch=watch, proofs=proofs)
    return gated


def _gate(context: Context, name: str, env: Mapping[str, str]) -> WatchStep:
    folder = context.layout.src / name
    inside = context.component(name).build.source_dir
    return WatchStep(
        xpu=True,
        recipe=context.recipe.name,
        expected=Expectation(
            release=_release(context, env),
            switches=dict(env),
            source=str(folder if inside == "." else folder / inside),
            environment=str(context.layout.env),
            mkl=context.recipe.toolchain.mkl is not None,
        ),
    )


def _release(context: Context, env: Mapping[str, str]) -> str | None:
    told = context.recipe.release or env.get("PYTORCH_BUILD_VERSION")
    try:
        return str(Version(told)) if told else None
    except InvalidVersion:
        return None


def _installed(context: Context, env: Mapping[str, str]) -> XpuInstalledProof:
    oneapi = context.facts.oneapi
    return XpuInstalledProof(
        python=str(context.layout.python),
        arch=aot.targets_in(env),
        version=env.get("PYTORCH_BUILD_VERSION"),
        env=dict(oneapi.env) if oneapi else {},
        path_prefix=oneapi.path_prefix if oneapi else (),
    )
