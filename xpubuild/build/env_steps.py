"""The steps that make and fill the Python environment. Pure."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from xpubuild.build.context import Context
from xpubuild.build.installed import InstalledProof, installed_stamp
from xpubuild.build.proofs import AbiOfInstalledProof, EnvironmentProof
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.model import Command, Proof, Step
from xpubuild.toolchain.environment import install_command, make_env_command, repair_env_command
from xpubuild.toolchain.make_env import MARK as ENV_MARK
from xpubuild.toolchain.mkl import MklStaticProof
from xpubuild.toolchain.pins import dist_info, pinned
from xpubuild.toolchain.pip_failures import explain_pip_failure


def environment_step(context: Context) -> Step:
    """Return the step that makes the Python environment."""
    layout, facts = context.layout, context.facts
    venv = f'"${{PYTHON:-{facts.python}}}" -m venv {shlex.quote(str(layout.env))}'
    return Step(
        id="env",
        title=f"Python {facts.python_version} environment",
        commands=(replace(make_env_command(str(layout.env), facts.python), portable=(venv,)),),
        proofs=(EnvironmentProof(str(layout.env), facts.python_version),),
        outputs=(str(layout.env),),
        witnesses=(str(layout.env / "pyvenv.cfg"), str(layout.python), str(layout.env / ENV_MARK)),
        relevant={"python": facts.python_version},
    )


def _requirements_step(
    context: Context,
    names: Sequence[str],
    *,
    identifier: str,
    title: str,
    needs: tuple[str, ...],
    indexes: Sequence[str] = (),
    proofs: tuple[Proof, ...] = (),
) -> Step:
    texts = [context.facts.requirements[name] for name in names]
    pins = [pin for text in texts for pin in pinned(text, context.facts.python_version)]
    env, site = context.layout.env, context.site_packages
    files = [str(context.requirement_path(name)) for name in names]
    reports = [context.layout.pip_report(identifier, Path(name).stem) for name in names]
    return Step(
        id=identifier,
        title=title,
        needs=needs,
        commands=(
            repair_env_command(str(env)),
            *(
                _reported(install_command(str(env), path, indexes=indexes), report)
                for path, report in zip(files, reports, strict=True)
            ),
        ),
        proofs=(InstalledProof(str(site), tuple(name for name, _ in pins)), *proofs),
        inputs=tuple(files),
        outputs=(str(env), *map(str, reports)),
        witnesses=tuple(str(site / f"{dist_info(*pin)}" / "RECORD") for pin in pins),
        outputs_stamp=functools.partial(installed_stamp, site, tuple(name for name, _ in pins)),
        relevant={"requirements": digest(texts)},
        explain=functools.partial(explain_pip_failure, indexes=tuple(indexes)),
    )


def _reported(command: Command, report: Path) -> Command:
    """Let pip leave a report of what it installed, with the hashes it checked."""
    extra = ("--report", str(report))
    return replace(
        command,
        argv=(*command.argv, *extra),
        alternatives=tuple((*argv, *extra) for argv in command.alternatives),
    )


def toolchain_step(context: Context) -> Step:
    """Return the step that installs cmake, ninja, MKL and the build backends, with hashes."""
    tools = context.recipe.toolchain
    proofs: tuple[Proof, ...] = ()
    if tools.mkl is not None:
        proofs = (MklStaticProof(str(context.layout.env), tools.mkl),)
    return _requirements_step(
        context,
        tools.requirements,
        identifier="toolchain",
        title="build tools and MKL, pinned and hashed",
        needs=("env",),
        proofs=proofs,
    )


def wheel_component_step(context: Context, name: str, after: tuple[str, ...]) -> Step:
    """Return the step that installs a prebuilt wheel at its pin."""
    component = context.component(name)
    proofs: tuple[Proof, ...] = ()
    if component.cxx11_abi is not None:
        folder = context.site_packages / component.dist.replace("-", "_") / "lib"
        proofs = (AbiOfInstalledProof(component.dist, str(folder), component.cxx11_abi),)
    return _requirements_step(
        context,
        [component.requirements or ""],
        identifier=name,
        title=f"{component.dist} {component.version}, prebuilt",
        needs=after,
        indexes=component.indexes,
        proofs=proofs,
    )
