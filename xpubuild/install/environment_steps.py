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
from xpubuild.install.held import (
    CompleteProof,
    ComponentsCompleteProof,
    constraints_of,
    explain_held,
    held_file,
    held_proof,
    hold_command,
    with_constraints,
)
from xpubuild.install.target import Target
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


def environment_step(target: Target) -> Step:
    """Return the step that makes the Python environment."""
    layout, version = target.layout, target.python_version
    venv = f'"${{PYTHON:-{target.python}}}" -m venv {shlex.quote(str(layout.env))}'
    return Step(
        id="env",
        title=f"create environment with Python {version}",
        commands=(replace(make_env_command(str(layout.env), target.python), portable=(venv,)),),
        proofs=(EnvironmentProof(str(layout.env), version),),
        outputs=(str(layout.env),),
        witnesses=(str(layout.env / "pyvenv.cfg"), str(layout.python), str(layout.env / ENV_MARK)),
        relevant={"python": version},
    )


def _requirements_step(
    target: Target,
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
    texts = [target.requirements[name] for name in names]
    pins = [pin for text in texts for pin in pinned(text, target.python_version)]
    env, site = target.layout.env, target.site_packages
    files = [str(target.requirement_path(name)) for name in names]
    reports = [target.layout.pip_report(identifier, Path(name).stem) for name in names]
    pin_names = tuple(name for name, _ in pins)
    more = [*_words("--constraint", constraints), *_words("--index", indexes)]
    if left_out:
        proofs = (CompleteProof(str(site), target.python_version, pin_names, left_out), *proofs)
    return Step(
        id=identifier,
        title=title,
        needs=needs,
        after=after,
        commands=(
            repair_env_command(str(env), held=held),
            *((_leave_out(target, left_out),) if left_out else ()),
            *(
                _by_uv(
                    target,
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
        explain=explain_held(indexes)
        if constraints
        else functools.partial(explain_pip_failure, indexes=tuple(indexes)),
    )


def _by_uv(target: Target, command: Command, files: tuple[str, Path], words: Sequence[str]) -> Command:
    """Return a command of pip that looks where this plan does; with uv before it, where that can be used.

    ``files`` are the requirements and the report of what was installed.
    """
    installer = target.installer
    shortcut: tuple[str, ...] = ()
    if installer.uv is not None:
        shortcut = (
            XPUBUILD, "plumbing", "link-packages", str(target.layout.env), files[0], "--uv", installer.uv,
            "--cache", str(installer.cache), "--python-version", target.python_version,
            "--report", str(files[1]), *words,
        )  # fmt: skip
    return replace(command, tuning=target.downloads.pip, shortcut=shortcut)


def _leave_out(target: Target, names: tuple[str, ...]) -> Command:
    env = str(target.layout.env)
    command = leave_out_command(env, names)
    if target.installer.uv is None:
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


def toolchain_step(target: Target) -> Step:
    """Return the step that installs cmake, ninja, MKL and the build backends, with hashes."""
    tools = target.recipe.toolchain
    proofs: tuple[Proof, ...] = ()
    if tools.mkl is not None:
        proofs = (MklStaticProof(str(target.layout.env), tools.mkl),)
    return _requirements_step(
        target,
        tools.requirements,
        identifier="toolchain",
        title="install build tools and MKL",
        needs=("env",),
        proofs=proofs,
        left_out=_left_out(target),
    )


def _left_out(target: Target) -> tuple[str, ...]:
    """Return what the recipe leaves out; not what a requirement file of this plan pins nevertheless.

    A prebuilt torch for XPU has its libraries from such packages.
    """
    pins = {
        canonicalize_name(name)
        for text in target.requirements.values()
        for name, _ in pinned(text, target.python_version)
    }
    names = map(canonicalize_name, target.recipe.toolchain.leave_out)
    return tuple(sorted({*names} - pins))


def with_components_proof(target: Target, step: Step) -> Step:
    """Return the last step that installs something, with the proof that no component lacks a dependency."""
    names = tuple(target.component(name).dist for name in target.components)
    python, left_out = target.python_version, _left_out(target)
    proof = ComponentsCompleteProof(str(target.site_packages), python, names, left_out)
    return replace(step, proofs=(*step.proofs, proof))


def requirements_step(target: Target, name: str, needs: tuple[str, ...], after: tuple[str, ...]) -> Step:
    """Return the step that installs what a source component needs to be built beside the common tools."""
    component = target.component(name)
    return _requirements_step(
        target,
        component.build.requirements,
        identifier=f"{name}.requirements",
        title=f"install build requirements of {component.dist}",
        needs=needs,
        after=after,
        constraints=constraints_of(target, name),
        proofs=(held_proof(target, name, own=False),),
    )


def wheel_component_step(
    target: Target, name: str, needs: tuple[str, ...], after: tuple[str, ...] = ()
) -> Step:
    """Return the step that installs a prebuilt wheel at its pin."""
    component = target.component(name)
    proofs: tuple[Proof, ...] = (held_proof(target, name, own=True),)
    if component.cxx11_abi is not None:
        folder = target.site_packages / component.dist.replace("-", "_") / "lib"
        proofs += (AbiOfInstalledProof(component.dist, str(folder), component.cxx11_abi),)
    if component.requirements is None:
        return _unhashed_step(target, name, needs, after, proofs)
    step = _requirements_step(
        target,
        [component.requirements],
        identifier=name,
        title=f"install prebuilt {component.dist} {component.version}",
        needs=needs,
        after=after,
        indexes=component.indexes,
        constraints=constraints_of(target, name),
        held=held_file(target, name),
        last=(hold_command(target, name),),
        proofs=proofs,
    )
    held = held_file(target, name)
    return replace(step, outputs=(*step.outputs, held), witnesses=(*step.witnesses, held))


def _unhashed_step(
    target: Target,
    name: str,
    needs: tuple[str, ...],
    after: tuple[str, ...],
    proofs: tuple[Proof, ...],
) -> Step:
    """Install a wheel whose hash is not known beforehand: from the recipe's own index only, and alone.

    Not even an index that is configured: another project might have taken the name there. What was installed
    is in pip's report, with its hash, and so in the receipt.
    """
    component, env, site = target.component(name), target.layout.env, target.site_packages
    dist, report = component.dist, target.layout.pip_report(name, name)
    held = held_file(target, name)
    argv = (
        env_python(env), "-I", "-u", "-m", "pip", "install", "--only-binary", ":all:", "--no-deps",
        "--no-input", "--disable-pip-version-check", "--no-warn-script-location",
    )  # fmt: skip
    lines = tuple(
        with_constraints(
            (*argv, "--index-url", index, f"{dist}=={component.version}", "--report", str(report)),
            constraints_of(target, name),
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
            Command(argv=lines[0], alternatives=lines[1:], tuning=target.downloads.pip),
            hold_command(target, name),
        ),
        proofs=(InstalledProof(str(site), (f"{dist}=={component.version}",)), *proofs),
        inputs=constraints_of(target, name),
        outputs=(str(env), str(report), held),
        witnesses=(str(site / dist_info(dist, str(component.version)) / "RECORD"), held),
        outputs_stamp=functools.partial(installed_stamp, site, (dist,)),
        explain=explain_held(component.indexes),
    )
