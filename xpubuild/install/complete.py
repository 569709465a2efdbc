"""Whether an environment has all that was asked for, and what it means if pip would replace something."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import InstalledDist, declared, installed_dists
from xpubuild.documents import plain
from xpubuild.errors import AuditError, ToolchainError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.pip_failures import explain_pip_failure, not_fetched, not_offered
from xpubuild.supply.requirements import marker_environment

_CONFLICT = re.compile(r"conflicting dependencies|ResolutionImpossible|The user requested \(constraint\)")
_CONSTRAINT = re.compile(r"The user requested \(constraint\) (\S+)")
#: What wants a package: another one, or the command line.
_WANTS = re.compile(r"^\s*(?:(\S+ \S+) depends on|The user requested) (?!\(constraint\))(.+)$")
#: pip lists below it what no index has; the conflict that it reports then is none.
_NOT_THERE = "have no matching distributions available"
_MOST_SHOWN = 3


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
