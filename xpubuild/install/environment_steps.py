"""The steps that create and fill the Python environment; whether it has all that was asked for.

Each pip step has constraints, which keep it from replacing what was installed before: after a component is
installed, its version is written to a file that all later steps of components that need it read.
"""

from __future__ import annotations

import functools
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.freeze import TRITON, HeldProof, portable_hold
from xpubuild.artifacts.installed import InstalledProof, installed_stamp
from xpubuild.artifacts.site_packages import InstalledDist, declared, installed_dists
from xpubuild.artifacts.step_proofs import AbiOfInstalledProof, EnvironmentProof
from xpubuild.documents import plain
from xpubuild.engine.fingerprint import digest
from xpubuild.engine.model import XPUBUILD, Command, Proof, Step, closure
from xpubuild.errors import AuditError, ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install import rebuild
from xpubuild.install.target import Target
from xpubuild.machine import python_environment as pip
from xpubuild.machine.envmark import MARK as ENV_MARK
from xpubuild.machine.mkl import MklStaticProof
from xpubuild.machine.pip_failures import explain_pip_failure, not_fetched, not_offered
from xpubuild.supply.requirements import dist_info, marker_environment, pinned

_CONFLICT = re.compile(r"conflicting dependencies|ResolutionImpossible|The user requested \(constraint\)")
_CONSTRAINT = re.compile(r"The user requested \(constraint\) (\S+)")
#: What wants a package: another one, or the command line.
_WANTS = re.compile(r"^\s*(?:(\S+ \S+) depends on|The user requested) (?!\(constraint\))(.+)$")
#: pip lists below it what no index has; the conflict that it reports then is none.
_NOT_THERE = "have no matching distributions available"
_MOST_SHOWN = 3


def environment_step(target: Target) -> Step:
    """Return the step that makes the Python environment."""
    layout, version = target.layout, target.python_version
    venv = f'"${{PYTHON:-{target.python}}}" -m venv {shlex.quote(str(layout.env))}'
    return Step(
        id="env", title=f"create environment with Python {version}", relevant={"python": version},
        commands=(replace(pip.make_env_command(str(layout.env), target.python), portable=(venv,)),),
        proofs=(EnvironmentProof(str(layout.env), version),),
        outputs=(str(layout.env),),
        witnesses=(str(layout.env / "pyvenv.cfg"), str(layout.python), str(layout.env / ENV_MARK)),
    )  # fmt: skip


# --- what was installed before stays ---------------------------------------------------------------------


def held_file(target: Target, name: str) -> str:
    """Return the constraints file that says what a component's installation put there."""
    return str(target.layout.build / "held" / f"{name}.txt")


def _held_before(target: Target, name: str) -> tuple[str, ...]:
    """Return the files of all components that one needs, directly or not, in the order they are installed."""
    needed = closure(target.component(name).needs, lambda other: target.component(other).needs)
    return tuple(held_file(target, other) for other in target.components if other in needed)


def constraints_of(target: Target, name: str) -> tuple[str, ...]:
    """Return the constraints files for the pip commands of a component."""
    return (*known_beforehand(target), *_held_before(target, name))


def known_beforehand(target: Target) -> Mapping[str, str]:
    """Return the file (path -> text) with what the recipe itself says; empty where it says nothing.

    Versions of prebuilt wheels are constrained before they are installed. If triton comes under one name, its
    other names are excluded: their wheels contain the same folder.

    Raises:
        UnsatisfiableError: two of the chosen components have ``triton/``.
    """
    dists = {name: canonicalize_name(target.component(name).dist) for name in target.components}
    triton = [name for name, dist in dists.items() if dist in TRITON]
    if len(triton) > 1:
        what = f"the components {' and '.join(triton)} both contain the package triton/"
        why = "the second one would overwrite the first"
        raise UnsatisfiableError(what, why=why, fix=f"exclude one of them: --without {triton[-1]}")
    wheels = [name for name in target.components if target.component(name).kind == "wheel"]
    pins: dict[str, str] = {dists[name]: str(target.component(name).version) for name in wheels}
    forbidden = [dist for dist in TRITON if triton and dist != dists[triton[0]]]
    text = pip.write_constraints(pins, forbidden=forbidden)
    return {str(target.layout.build / "held" / "by-the-recipe.txt"): text} if text else {}


def hold_command(target: Target, name: str) -> Command:
    """Return the command, the last of an installation, that writes down what was installed."""
    dist, file = target.component(name).dist, held_file(target, name)
    return Command(
        argv=(XPUBUILD, "plumbing", "hold", str(target.layout.env), dist, file),
        portable=portable_hold(str(target.layout.python), dist, file),
    )


def held_proof(target: Target, name: str, *, own: bool = True) -> HeldProof:
    """Return the proof for a pip step of a component; ``own`` where it installs the component itself."""
    files = (*_held_before(target, name), *((held_file(target, name),) if own else ()))
    return HeldProof(str(target.site_packages), files)


def words(option: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return an option once for each value."""
    return tuple(word for value in values for word in (option, value))


# --- what pip installs -----------------------------------------------------------------------------------


def _requirements_step(
    target: Target, names: Sequence[str], identifier: str, title: str, *, needs: tuple[str, ...],
    component: str | None = None, indexes: Sequence[str] = (), left_out: tuple[str, ...] = (),
) -> Step:  # fmt: skip
    """Return a step that installs hashed requirement files.

    ``component`` is the one they are of; ``left_out`` are distributions that are not installed although
    something declares them.
    """
    texts = [target.requirements[name] for name in names]
    pins = [pin for text in texts for pin in pinned(text, target.python_version)]
    env, site = str(target.layout.env), target.site_packages
    files = [str(target.requirement_path(name)) for name in names]
    reports = [target.layout.pip_report(identifier, Path(name).stem) for name in names]
    pin_names = tuple(name for name, _ in pins)
    constraints = constraints_of(target, component) if component is not None else ()
    more = (*words("--constraint", constraints), *words("--index", indexes))
    proofs: tuple[Proof, ...] = (InstalledProof(str(site), pin_names),)
    commands = [pip.repair_env_command(env)]
    if left_out:
        proofs += (CompleteProof(str(site), target.python_version, pin_names, left_out),)
        leave_out, more = pip.leave_out_command(env, left_out), ("--no-deps", *more)
        by_uv = (XPUBUILD, "plumbing", "leave-out", env, *left_out) if target.installer.uv else ()
        commands.append(replace(leave_out, shortcut=by_uv))
    for file, report in zip(files, reports, strict=True):
        command = pip.install_command(env, file, indexes=indexes, constraints=constraints, whole=not left_out)
        # pip writes what it installed, with the hashes it checked; uv comes first where it can be used.
        reported, installer = ("--report", str(report)), target.installer
        shortcut = (
            XPUBUILD, "plumbing", "link-packages", env, file, "--uv", installer.uv or "",
            "--cache", str(installer.cache), "--python-version", target.python_version, *reported, *more,
        )  # fmt: skip
        commands.append(
            replace(
                command,
                argv=(*command.argv, *reported),
                alternatives=tuple((*argv, *reported) for argv in command.alternatives),
                tuning=target.downloads.pip,
                shortcut=shortcut if installer.uv else (),
            )
        )
    explain = explain_held if constraints else explain_pip_failure
    return Step(
        id=identifier,
        title=title,
        needs=needs,
        commands=tuple(commands),
        proofs=proofs,
        inputs=(*files, *constraints),
        outputs=(env, *map(str, reports)),
        witnesses=tuple(str(site / f"{dist_info(*pin)}" / "RECORD") for pin in pins),
        outputs_stamp=functools.partial(installed_stamp, site, pin_names),
        relevant={"requirements": digest(texts)},
        explain=functools.partial(explain, indexes=tuple(indexes)),
    )


def toolchain_step(target: Target, names: Sequence[str] | None = None) -> Step:
    """Return the step that installs cmake, ninja, MKL and the build backends, with hashes.

    ``names`` are the requirement files where these are not all of the recipe's.
    """
    tools, left_out = target.recipe.toolchain, _left_out(target)
    files, title = tools.requirements if names is None else names, "install build tools and MKL"
    step = _requirements_step(target, files, "toolchain", title, needs=("env",), left_out=left_out)
    mkl = (MklStaticProof(str(target.layout.env), tools.mkl),) if tools.mkl is not None else ()
    return replace(step, proofs=(*step.proofs, *mkl))


def _left_out(target: Target) -> tuple[str, ...]:
    """Return what the recipe leaves out; not what a requirement file of this plan pins nevertheless.

    A prebuilt torch for XPU has its libraries from such packages.
    """
    pins = [pin for text in target.requirements.values() for pin in pinned(text, target.python_version)]
    names = {canonicalize_name(name) for name in target.recipe.toolchain.leave_out}
    return tuple(sorted(names - {canonicalize_name(name) for name, _ in pins}))


def components_proof(target: Target) -> CompleteProof:
    """Return the proof that no component lacks a dependency."""
    names = tuple(target.component(name).dist for name in target.components)
    site, left_out = str(target.site_packages), _left_out(target)
    return CompleteProof(site, target.python_version, names, left_out, of_components=True)


def requirements_step(target: Target, name: str, needs: tuple[str, ...]) -> Step:
    """Return the step that installs what a source component needs to be built beside the common tools."""
    component = target.component(name)
    title, files = f"install build requirements of {component.dist}", component.build.requirements
    step = _requirements_step(target, files, f"{name}.requirements", title, needs=needs, component=name)
    return replace(step, proofs=(*step.proofs, held_proof(target, name, own=False)))


def wheel_component_step(target: Target, name: str, needs: tuple[str, ...]) -> Step:
    """Return the step that installs a prebuilt wheel at its pin."""
    component, held = target.component(name), held_file(target, name)
    title = f"install prebuilt {component.dist} {component.version}"
    files, indexes = [str(component.requirements)], component.indexes
    step = _requirements_step(target, files, name, title, needs=needs, component=name, indexes=indexes)
    proofs: tuple[Proof, ...] = (*step.proofs, held_proof(target, name))
    if component.cxx11_abi is not None:
        folder = target.site_packages / component.dist.replace("-", "_") / "lib"
        proofs += (AbiOfInstalledProof(component.dist, str(folder), component.cxx11_abi),)
    repair = pip.repair_env_command(str(target.layout.env), held=held)
    return replace(
        step,
        commands=(repair, *step.commands[1:], hold_command(target, name)),
        proofs=proofs,
        outputs=(*step.outputs, held),
        witnesses=(*step.witnesses, held),
    )


def rebuild_files(target: Target) -> dict[str, str]:
    """Return the program that builds editable installs again: path -> text; none for wheels."""
    place = target.layout.build / "rebuild" / "rebuild.py"
    return {str(place): Path(rebuild.__file__).read_text("utf-8")} if target.options.editable else {}


# --- what pip would replace, and what an environment lacks -----------------------------------------------


def explain_held(tail: Sequence[str], *, indexes: Sequence[str] = ()) -> XpuBuildError:
    """Return the error that the last lines of a pip with constraints mean."""
    held = next((match[1] for line in tail if (match := _CONSTRAINT.search(line))), None)
    if held is None or not any(_CONFLICT.search(line) for line in tail):
        return explain_pip_failure(tail, indexes=indexes)
    wants = [(match[1], match[2]) for line in tail if (match := _WANTS.match(line))]
    if not any(_excludes(wanted, held) for _, wanted in wants):
        # pip ends with the same words where the release that is held is on an index that did not answer.
        if unreachable := not_fetched(tail, held):
            return unreachable
        if any(_NOT_THERE in line for line in tail):
            return not_offered(held, indexes)
    wanting = [f"{who} (requires {wanted})" for who, wanted in wants if who]
    name = re.split(r"[=<]", held)[0]
    what = f"{name} must not be installed" if held.endswith("<0") else f"{held} must be kept"
    return AuditError(
        f"pip would replace a package that this workspace was built with: {what}",
        why="; ".join(wanting) or "a requirement needs another version",
        fix="use compatible versions in the requirement file, or exclude the component (--without); then"
        " run the same command again",
        commands=("xpubuild status",),
        evidence={"held": held, "wanting": wanting},
    )


def _excludes(wanted: str, held: str) -> bool:
    """Whether a requirement asks for another version of what is pinned: then pip would replace it."""
    try:
        asked, kept = Requirement(wanted.strip()), Requirement(held)
    except InvalidRequirement:
        return False
    version = next((item.version for item in kept.specifier if item.operator == "=="), "0")
    same = canonicalize_name(asked.name) == canonicalize_name(kept.name)
    return same and (held.endswith("<0") or not asked.specifier.contains(version, prereleases=True))


@frozen
class CompleteProof:
    """The dependencies of ``names`` are installed, and excluded distributions are not.

    ``python`` is the version of the environment's interpreter. pip ran without dependency resolution, so it
    does not report what a requirement file lacks. ``of_components`` is the same for the components, after the
    last of them: what the recipe leaves out may be there then, a conda environment has it.
    """

    site_packages: str
    python: str
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    of_components: bool = False

    def describe(self) -> str:
        """Return what is checked."""
        if self.of_components:
            return "everything that the installed components require is installed"
        return f"all dependencies are installed, except the excluded {', '.join(self.left_out)}"

    def key(self) -> dict[str, Any] | None:
        """Return what the check depends on; of components that is in the steps before."""
        if self.of_components:
            return None
        fields = plain(self)
        del fields["of_components"]
        return {"proof": "complete", **fields}

    def check(self) -> dict[str, Any]:
        """Return who declares what was left out.

        Raises:
            ToolchainError: a dependency is missing or of another version, or something left out is there.
        """
        dists = {dist.name: dist for dist in installed_dists(Path(self.site_packages))}
        left_out = {canonicalize_name(name) for name in self.left_out}
        there = sorted(left_out & dists.keys())
        if there and not self.of_components:
            raise self._error(
                f"{', '.join(there)} would be found before the libraries of oneAPI", "remove it", there
            )
        askers, problems = self._missing(dists, left_out)
        if problems:
            files = "a requirement file of the component (build.requirements)"
            where = files if self.of_components else "the requirement file of the recipe"
            raise self._error("; ".join(problems[:_MOST_SHOWN]), f"add it to {where}", ())
        return {"left_out": askers}

    def _missing(
        self, dists: Mapping[str, InstalledDist], left_out: set[Any]
    ) -> tuple[dict[str, list[str]], list[str]]:
        """Return who declares what was left out, and what else is missing or of another version."""
        askers: dict[str, list[str]] = {}
        problems = []
        for wanted in sorted({canonicalize_name(name) for name in self.names} & dists.keys()):
            dist = dists[wanted]
            for requirement in declared(dist, marker_environment(self.python)):
                name = canonicalize_name(requirement.name)
                here = dists[name].version if name in dists else None
                if name in left_out:
                    askers.setdefault(name, []).append(dist.name)
                elif here is None or not requirement.specifier.contains(here, prereleases=True):
                    found = f"but {here} is installed" if here else "which is not installed"
                    problems.append(f"{dist.name} {dist.version} needs {requirement}, {found}")
        return askers, problems

    def _error(self, why: str, fix: str, names: Sequence[str]) -> ToolchainError:
        python = Path(self.site_packages).parents[2] / "bin" / "python"
        return ToolchainError(
            "the environment does not match the recipe's requirement files",
            why=why,
            fix=f"{fix}, then run the same command again",
            commands=(f"{python} -m pip uninstall --yes {' '.join(names)}",) if names else (),
            evidence={"site_packages": self.site_packages},
        )
