"""Adds the XPU gate, which stops a build that has lost XPU support, and explain to a plan. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from packaging.version import InvalidVersion, Version

from xpubuild.artifacts.expectation import Expectation
from xpubuild.artifacts.gate_watcher import WatchStep
from xpubuild.artifacts.xpu_proofs import XpuInstalledProof, XpuWheelProof
from xpubuild.engine.model import XPUBUILD, Step
from xpubuild.install.build_steps import source_folder, targets_in, wants_xpu
from xpubuild.install.target import Target

TORCH = "torch"


def watched(target: Target, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the steps with their watchers and, where PyTorch is for XPU, with the proofs that it is."""
    torch = [name for name in target.components if target.component(name).dist == TORCH]
    gated: dict[str, Step] = {}
    if torch and target.device == "xpu":
        gated = _gated(target, torch[0], {step.id: step for step in steps})
    return tuple(gated.get(step.id) or _watched(target, step) for step in steps)


def _watched(target: Target, step: Step) -> Step:
    # A child xpubuild explains itself; what it runs is no build.
    if all(command.argv[0] == XPUBUILD for command in step.commands):
        return step
    env = {key: value for command in step.commands for key, value in command.env.items()}
    xpu = target.device == "xpu" and wants_xpu(env)
    return replace(step, watch=WatchStep(xpu=xpu, recipe=target.recipe.name))


def _gated(target: Target, name: str, steps: Mapping[str, Step]) -> dict[str, Step]:
    """Return the steps that build and install PyTorch: the gate looks on, and proofs look at the result.

    It is built as a wheel and installed, installed editable in one step, or taken prebuilt.
    """
    wheel, install = steps.get(f"{name}.wheel"), steps.get(f"{name}.install", steps.get(name))
    if install is None:
        return {}
    builder = wheel or install
    env = builder.commands[-1].env
    if not wants_xpu(env):
        return {}
    watch = _watched(target, builder).watch if install.id == name else _gate(target, name, env)
    own = watch if builder is install else _watched(target, install).watch
    gated = {install.id: replace(install, watch=own, proofs=(*install.proofs, _installed(target, env)))}
    if wheel is not None and wheel.publish is not None:
        proofs = (*wheel.proofs, XpuWheelProof(wheel.publish.stage))
        gated[wheel.id] = replace(wheel, watch=watch, proofs=proofs)
    return gated


def _gate(target: Target, name: str, env: Mapping[str, str]) -> WatchStep:
    release = target.recipe.release or env.get("PYTORCH_BUILD_VERSION")
    try:
        release = str(Version(release)) if release else None
    except InvalidVersion:
        release = None
    return WatchStep(
        xpu=True,
        recipe=target.recipe.name,
        expected=Expectation(
            release=release,
            switches=dict(env),
            source=source_folder(target, name),
            environment=str(target.layout.env),
            mkl=target.recipe.toolchain.mkl is not None,
        ),
    )


def _installed(target: Target, env: Mapping[str, str]) -> XpuInstalledProof:
    oneapi = target.oneapi
    return XpuInstalledProof(
        python=str(target.layout.python),
        arch=targets_in(env),
        version=env.get("PYTORCH_BUILD_VERSION"),
        env=dict(oneapi.env) if oneapi else {},
        path_prefix=oneapi.path_prefix if oneapi else (),
    )
