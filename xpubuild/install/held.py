"""The constraints of each pip step, which keep it from replacing what was installed before. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.freeze import TRITON, HeldProof, portable_hold
from xpubuild.artifacts.site_packages import InstalledDist, declared, installed_dists
from xpubuild.engine.model import XPUBUILD, Command
from xpubuild.errors import AuditError, ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.install.target import Target
from xpubuild.machine.pip_failures import explain_pip_failure, not_fetched, not_offered
from xpubuild.machine.python_environment import write_constraints
from xpubuild.supply.requirements import marker_environment

_CONFLICT = re.compile(r"conflicting dependencies|ResolutionImpossible|The user requested \(constraint\)")
_CONSTRAINT = re.compile(r"The user requested \(constraint\) (\S+)")
#: What else wants a package: the requirement of another, or one that was asked for.
_WANTS = re.compile(r"^\s*(?:\S+ \S+ depends on|The user requested) (?!\(constraint\))(.+)$")
#: pip lists below it what no index has; the conflict that it reports then is none.
_NOT_THERE = "have no matching distributions available"
_DEPENDS = re.compile(r"^\s*(\S+ \S+) depends on (.+)$")


def held_file(target: Target, name: str) -> str:
    """Return the constraints file that says what a component's installation put there."""
    return str(target.layout.build / "held" / f"{name}.txt")


def held_before(target: Target, name: str) -> tuple[str, ...]:
    """Return the files of all components that one needs, directly or not, in the order they are installed."""
    needed: set[str] = set()
    frontier = list(target.component(name).needs)
    while frontier:
        other = frontier.pop()
        if other not in needed:
            needed.add(other)
            frontier.extend(target.component(other).needs)
    return tuple(held_file(target, other) for other in target.components if other in needed)


def constraints_of(target: Target, name: str) -> tuple[str, ...]:
    """Return the constraints files for the pip commands of a component."""
    return (*known_beforehand(target), *held_before(target, name))


def known_beforehand(target: Target) -> Mapping[str, str]:
    """Return the file (path -> text) with what the recipe itself says; empty where it says nothing.

    Versions of prebuilt wheels are constrained before they are installed. If triton comes under one name, its
    other names are excluded: their wheels contain the same folder.

    Raises:
        UnsatisfiableError: two of the chosen components bring ``triton/``.
    """
    dists = {name: canonicalize_name(target.component(name).dist) for name in target.components}
    triton = [name for name, dist in dists.items() if dist in TRITON]
    if len(triton) > 1:
        raise UnsatisfiableError(
            f"the components {' and '.join(triton)} both contain the package triton/",
            why="the second one would overwrite the first",
            fix=f"exclude one of them: --without {triton[-1]}",
        )
    pins: dict[str, str] = {
        dists[name]: str(target.component(name).version)
        for name in target.components
        if target.component(name).kind == "wheel"
    }
    forbidden = [dist for dist in TRITON if triton and dist != dists[triton[0]]]
    text = write_constraints(pins, forbidden=forbidden)
    return {str(target.layout.build / "held" / "by-the-recipe.txt"): text} if text else {}


def hold_command(target: Target, name: str) -> Command:
    """Return the command, the last of an installation, that writes down what was installed."""
    dist, file = target.component(name).dist, held_file(target, name)
    return Command(
        argv=(XPUBUILD, "plumbing", "hold", str(target.layout.env), dist, file),
        portable=portable_hold(str(target.layout.python), dist, file),
    )


def held_proof(target: Target, name: str, *, own: bool) -> HeldProof:
    """Return the proof for a pip step of a component; ``own`` where it installs the component itself."""
    files = (*held_before(target, name), *((held_file(target, name),) if own else ()))
    return HeldProof(str(target.site_packages), files)


def with_constraints(argv: Sequence[str], files: Sequence[str]) -> tuple[str, ...]:
    """Return a pip command with constraints files."""
    return (*argv, *(word for file in files for word in ("--constraint", file)))


def explain_held(indexes: Sequence[str] = ()) -> partial[XpuBuildError]:
    """Return what turns the last lines of a pip that was held into the error the user reads."""
    return partial(_explain, indexes=tuple(indexes))


def _explain(tail: Sequence[str], *, indexes: Sequence[str]) -> XpuBuildError:
    held = next((match[1] for line in tail if (match := _CONSTRAINT.search(line))), None)
    if held is None or not any(_CONFLICT.search(line) for line in tail):
        return explain_pip_failure(tail, indexes=indexes)
    if not _excluded(tail, held):
        if unreachable := not_fetched(tail, held):
            return unreachable
        if any(_NOT_THERE in line for line in tail):
            return not_offered(held, indexes)
    wanting = [f"{match[1]} (requires {match[2]})" for line in tail if (match := _DEPENDS.match(line))]
    forbidden = held.endswith("<0")
    name = re.split(r"[=<]", held)[0]
    what = f"{name} must not be installed" if forbidden else f"{held} must be kept"
    return AuditError(
        f"pip would replace a package that this workspace was built with: {what}",
        why="; ".join(wanting) or "a requirement needs another version",
        fix=(
            "use compatible versions in the requirement file, or exclude the component (--without); then "
            "run the same command again"
        ),
        commands=(shlex.join(["xpubuild", "status"]),),
        evidence={"held": held, "wanting": wanting},
    )


def _excluded(tail: Sequence[str], held: str) -> bool:
    """Whether something asks for another version of what is held: then pip would replace it.

    pip ends with the same words where the release that is held is on an index that did not answer.
    """
    kept = _requirement(held)
    pinned = kept.specifier if kept is not None else ()
    version = next((item.version for item in pinned if item.operator == "=="), None)
    if kept is None or version is None:
        return True
    wanted = (match[1] for line in tail if (match := _WANTS.match(line)))
    asked = [item for text in wanted if (item := _requirement(text)) is not None]
    return any(
        canonicalize_name(item.name) == canonicalize_name(kept.name)
        and not item.specifier.contains(version, prereleases=True)
        for item in asked
    )


def _requirement(text: str) -> Requirement | None:
    try:
        return Requirement(text.strip())
    except InvalidRequirement:
        return None


_MOST_SHOWN = 3


@frozen
class CompleteProof:
    """The dependencies of ``names`` are installed, and excluded distributions are not.

    ``python`` is the version of the environment's interpreter. pip ran without dependency resolution, so it
    does not report what a requirement file lacks.
    """

    site_packages: str
    python: str
    names: tuple[str, ...]
    left_out: tuple[str, ...]

    def describe(self) -> str:
        """Return what is checked."""
        return f"all dependencies are installed, except the excluded {', '.join(self.left_out)}"

    def key(self) -> dict[str, Any] | None:
        """Return what the check depends on."""
        return {
            "proof": "complete",
            "site_packages": self.site_packages,
            "python": self.python,
            "names": list(self.names),
            "left_out": list(self.left_out),
        }

    def check(self) -> dict[str, Any]:
        """Return who declares what was left out.

        Raises:
            ToolchainError: a dependency is missing or of another version, or something left out is there.
        """
        dists = {dist.name: dist for dist in installed_dists(Path(self.site_packages))}
        there = sorted(self._unwanted() & dists.keys())
        if there:
            raise self._error(
                f"{', '.join(there)} would be found before the libraries of oneAPI", "remove it", there
            )
        askers, problems = self._missing(dists)
        if problems:
            raise self._error("; ".join(problems[:_MOST_SHOWN]), self._fix(), ())
        return {"left_out": askers}

    def _unwanted(self) -> set[str]:
        return {canonicalize_name(name) for name in self.left_out}

    def _missing(self, dists: Mapping[str, InstalledDist]) -> tuple[dict[str, list[str]], list[str]]:
        """Return who declares what was left out, and what else is missing or of another version."""
        wanted = {canonicalize_name(name) for name in self.names}
        left_out = {canonicalize_name(name) for name in self.left_out}
        askers: dict[str, list[str]] = {}
        problems = []
        for dist in (dists[name] for name in sorted(wanted & dists.keys())):
            for requirement in declared(dist, marker_environment(self.python)):
                name = canonicalize_name(requirement.name)
                if name in left_out:
                    askers.setdefault(name, []).append(dist.name)
                elif name not in dists:
                    problems.append(f"{_label(dist)} needs {requirement}, which is not installed")
                elif not requirement.specifier.contains(dists[name].version, prereleases=True):
                    problems.append(
                        f"{_label(dist)} needs {requirement}, but {dists[name].version} is installed"
                    )
        return askers, problems

    def _fix(self) -> str:
        return "add it to the requirement file of the recipe"

    def _error(self, why: str, fix: str, names: Sequence[str]) -> ToolchainError:
        python = Path(self.site_packages).parents[2] / "bin" / "python"
        return ToolchainError(
            "the environment does not match the recipe's requirement files",
            why=why,
            fix=f"{fix}, then run the same command again",
            commands=(f"{python} -m pip uninstall --yes {' '.join(names)}",) if names else (),
            evidence={"site_packages": self.site_packages},
        )


@frozen
class ComponentsCompleteProof(CompleteProof):
    """The same for the components, after the last of them: pip installs each without its dependencies.

    What the recipe leaves out may be there: a conda environment brings it.
    """

    def describe(self) -> str:
        """Return what is checked."""
        return "everything that the installed components require is installed"

    def key(self) -> None:
        """Return None: what it depends on is in the steps before."""

    def _unwanted(self) -> set[str]:
        return set()

    def _fix(self) -> str:
        return "add it to a requirement file of the component (build.requirements)"


def _label(dist: InstalledDist) -> str:
    return f"{dist.name} {dist.version}"
