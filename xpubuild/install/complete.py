"""Checks that an environment has all declared dependencies, except those excluded on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import InstalledDist, declared, installed_dists
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.supply.requirements import marker_environment

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
