"""The steps that create and fill the Python environment. Pure."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.artifacts.installed import InstalledProof, installed_stamp
from xpubuild.artifacts.step_proofs import AbiOfInstalledProof, EnvironmentProof
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.model import XPUBUILD, Command, Proof, Step
from xpubuild.install import freeze_steps as holding
from xpubuild.install.complete import CompleteProof, ComponentsCompleteProof
from xpubuild.install.context import Context
from xpubuild.machine.envmark import MARK as ENV_MARK
from xpubuild.machine.mkl import MklStaticProof
from xpubuild.machine.pip_failures import explain_pip_failure
from xpubuild.machine.python_environment import (
    env_python,
    install_command,
    leave_out_command,
    make_env_command,
    repair_env_command,
)
from xpubuild.supply.requirements import dist_info, pinned


def environment_step(context: Context) -> Step:
    """Return the step that makes the Python environment."""
    layout, facts = context.layout, context.facts
    venv = f'"${{PYTHON:-{facts.python}}}" -m venv {shlex.quote(str(layout.env))}'
    return Step(
        id="env",
        title=f"create environment with Python {facts.python_version}",
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
    after: tuple[str, ...] = (),
    indexes: Sequence[str] = (),
    constraints: Sequence[str] = (),
    held: str | None = None,
    last: tuple[Command, ...] = (),
    proofs: tuple[Proof, ...] = (),
    left_out: tuple[str, ...] = (),
) -> Step:
    """Return a step that installs hashed requirement files; ``last`` are commands after that.

    ``held`` is the file in which what the step installs was written down, the last time. ``left_out`` are
    distributions that are not installed although something declares them.
    """
    texts = [context.facts.requirements[name] for name in names]
    pins = [pin for text in texts for pin in pinned(text, context.facts.python_version)]
    env, site = context.layout.env, context.site_packages
    files = [str(context.requirement_path(name)) for name in names]
    reports = [context.layout.pip_report(identifier, Path(name).stem) for name in names]
    pin_names = tuple(name for name, _ in pins)
    more = [*_words("--constraint", constraints), *_words("--index", indexes)]
    if left_out:
        proofs = (CompleteProof(str(site), context.facts.python_version, pin_names, left_out), *proofs)
    return Step(
        id=identifier,
        title=title,
        needs=needs,
        after=after,
        commands=(
            repair_env_command(str(env), held=held),
            *((_leave_out(context, left_out),) if left_out else ()),
            *(
                _by_uv(
                    context,
                    _reported(
                        install_command(
                            str(env), path, indexes=indexes, constraints=constraints, whole=not left_out
                        ),
                        report,
                    ),
                    (path, report),
                    (*(("--no-deps",) if left_out else ()), *more),
                )
                for path, report in zip(files, reports, strict=True)
            ),
            *last,
        ),
        proofs=(InstalledProof(str(site), pin_names), *proofs),
        inputs=(*files, *constraints),
        outputs=(str(env), *map(str, reports)),
        witnesses=tuple(str(site / f"{dist_info(*pin)}" / "RECORD") for pin in pins),
        outputs_stamp=functools.partial(installed_stamp, site, pin_names),
        relevant={"requirements": digest(texts)},
        explain=holding.explain(indexes)
        if constraints
        else functools.partial(explain_pip_failure, indexes=tuple(indexes)),
    )


def _by_uv(context: Context, command: Command, files: tuple[str, Path], words: Sequence[str]) -> Command:
    """Return a command of pip that looks where this plan does; with uv before it, where that can be used.

    ``files`` are the requirements and the report of what was installed.
    """
    installer = context.facts.installer
    shortcut: tuple[str, ...] = ()
    if installer.uv is not None:
        shortcut = (
            XPUBUILD, "plumbing", "link-packages", str(context.layout.env), files[0], "--uv", installer.uv,
            "--cache", str(installer.cache), "--python-version", context.facts.python_version,
            "--report", str(files[1]), *words,
        )  # fmt: skip
    return replace(command, tuning=context.facts.downloads.pip, shortcut=shortcut)


def _leave_out(context: Context, names: tuple[str, ...]) -> Command:
    env = str(context.layout.env)
    command = leave_out_command(env, names)
    if context.facts.installer.uv is None:
        return command
    return replace(command, shortcut=(XPUBUILD, "plumbing", "leave-out", env, *names))


def _words(option: str, values: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for value in values for word in (option, value))


def _reported(command: Command, report: Path) -> Command:
    """Let pip write a report of what it installed, with the hashes it checked."""
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
        title="install build tools and MKL",
        needs=("env",),
        proofs=proofs,
        left_out=_left_out(context),
    )


def _left_out(context: Context) -> tuple[str, ...]:
    """Return what the recipe leaves out; not what a requirement file of this plan pins nevertheless.

    A prebuilt torch for XPU has its libraries from such packages.
    """
    pins = {
        canonicalize_name(name)
        for text in context.facts.requirements.values()
        for name, _ in pinned(text, context.facts.python_version)
    }
    names = map(canonicalize_name, context.recipe.toolchain.leave_out)
    return tuple(sorted({*names} - pins))


def with_components_proof(context: Context, step: Step) -> Step:
    """Return the last step that installs something, with the proof that no component lacks a dependency."""
    names = tuple(context.component(name).dist for name in context.choice.components)
    python, left_out = context.facts.python_version, _left_out(context)
    proof = ComponentsCompleteProof(str(context.site_packages), python, names, left_out)
    return replace(step, proofs=(*step.proofs, proof))


def requirements_step(context: Context, name: str, needs: tuple[str, ...], after: tuple[str, ...]) -> Step:
    """Return the step that installs what a source component needs to be built beside the common tools."""
    component = context.component(name)
    return _requirements_step(
        context,
        component.build.requirements,
        identifier=f"{name}.requirements",
        title=f"install build requirements of {component.dist}",
        needs=needs,
        after=after,
        constraints=holding.constraints(context, name),
        proofs=(holding.held_proof(context, name, own=False),),
    )


def wheel_component_step(
    context: Context, name: str, needs: tuple[str, ...], after: tuple[str, ...] = ()
) -> Step:
    """Return the step that installs a prebuilt wheel at its pin."""
    component = context.component(name)
    proofs: tuple[Proof, ...] = (holding.held_proof(context, name, own=True),)
    if component.cxx11_abi is not None:
        folder = context.site_packages / component.dist.replace("-", "_") / "lib"
        proofs += (AbiOfInstalledProof(component.dist, str(folder), component.cxx11_abi),)
    if component.requirements is None:
        return _unhashed_step(context, name, needs, after, proofs)
    step = _requirements_step(
        context,
        [component.requirements],
        identifier=name,
        title=f"install prebuilt {component.dist} {component.version}",
        needs=needs,
        after=after,
        indexes=component.indexes,
        constraints=holding.constraints(context, name),
        held=holding.held_file(context, name),
        last=(holding.hold_command(context, name),),
        proofs=proofs,
    )
    held = holding.held_file(context, name)
    return replace(step, outputs=(*step.outputs, held), witnesses=(*step.witnesses, held))


def _unhashed_step(
    context: Context,
    name: str,
    needs: tuple[str, ...],
    after: tuple[str, ...],
    proofs: tuple[Proof, ...],
) -> Step:
    """Install a wheel whose hash is not known beforehand: from the recipe's own index only, and alone.

    Not even an index that is configured: another project might have taken the name there. What was installed
    is in pip's report, with its hash, and so in the receipt.
    """
    component, env, site = context.component(name), context.layout.env, context.site_packages
    dist, report = component.dist, context.layout.pip_report(name, name)
    held = holding.held_file(context, name)
    argv = (
        env_python(env), "-I", "-u", "-m", "pip", "install", "--only-binary", ":all:", "--no-deps",
        "--no-input", "--disable-pip-version-check", "--no-warn-script-location",
    )  # fmt: skip
    lines = tuple(
        holding.with_constraints(
            (*argv, "--index-url", index, f"{dist}=={component.version}", "--report", str(report)),
            holding.constraints(context, name),
        )
        for index in component.indexes
    )
    return Step(
        id=name,
        title=f"install prebuilt {dist} {component.version} (no hash known)",
        needs=needs,
        after=after,
        commands=(
            repair_env_command(str(env), held=held),
            Command(argv=lines[0], alternatives=lines[1:], tuning=context.facts.downloads.pip),
            holding.hold_command(context, name),
        ),
        proofs=(InstalledProof(str(site), (f"{dist}=={component.version}",)), *proofs),
        inputs=holding.constraints(context, name),
        outputs=(str(env), str(report), held),
        witnesses=(str(site / dist_info(dist, str(component.version)) / "RECORD"), held),
        outputs_stamp=functools.partial(installed_stamp, site, (dist,)),
        explain=holding.explain(component.indexes),
    )
