"""Proves that an environment has all that its distributions declare, less what was left out on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from xpubuild.build.declared import declared
from xpubuild.build.sitepackages import InstalledDist, installed_dists
from xpubuild.errors import ToolchainError
from xpubuild.toolchain.pins import marker_environment

_MOST_SHOWN = 3


@dataclass(frozen=True)
class CompleteProof:
    """What ``names`` declare is installed too, and what is left out is not.

    ``python`` is the version of the environment's interpreter. pip was told to look at no dependencies, so it
    has not noticed what a requirement file lacks.
    """

    site_packages: str
    python: str
    names: tuple[str, ...]
    left_out: tuple[str, ...]

    def describe(self) -> str:
        """Say what is proved."""
        return f"nothing lacks a dependency but what is left out: {', '.join(self.left_out)}"

    def key(self) -> dict[str, Any]:
        """Return what the proof depends on."""
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
        wanted = {canonicalize_name(name) for name in self.names}
        left_out = {canonicalize_name(name) for name in self.left_out}
        there = sorted(left_out & dists.keys())
        if there:
            raise self._error(
                f"{', '.join(there)} would be found before the libraries of oneAPI", "take it out", there
            )
        askers: dict[str, list[str]] = {}
        problems = []
        for dist in (dists[name] for name in sorted(wanted & dists.keys())):
            for requirement in declared(dist, marker_environment(self.python)):
                name = canonicalize_name(requirement.name)
                if name in left_out:
                    askers.setdefault(name, []).append(dist.name)
                elif name not in dists:
                    problems.append(f"{_label(dist)} needs {requirement}, which is not there")
                elif not requirement.specifier.contains(dists[name].version, prereleases=True):
                    problems.append(f"{_label(dist)} needs {requirement}, there is {dists[name].version}")
        if problems:
            raise self._error(
                "; ".join(problems[:_MOST_SHOWN]), "add it to the requirement file of the recipe", ()
            )
        return {"left_out": askers}

    def _error(self, why: str, fix: str, names: Sequence[str]) -> ToolchainError:
        python = Path(self.site_packages).parents[2] / "bin" / "python"
        return ToolchainError(
            "the environment does not have what the recipe's requirement files say",
            why=why,
            fix=f"{fix}, then run the same command again",
            commands=(f"{python} -m pip uninstall --yes {' '.join(names)}",) if names else (),
            evidence={"site_packages": self.site_packages},
        )


def _label(dist: InstalledDist) -> str:
    return f"{dist.name} {dist.version}"
