"""The checks of a conda environment: packages as locked, no conflicting ones, Python, libstdc++, MKL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.mkl import DISTRIBUTIONS, MklStaticProof
from xpubuild.machine.pythons import PATIENT_S, probe_python
from xpubuild.supply.conda.environment import installed, problems
from xpubuild.supply.conda.libstdcxx import STDLIB, gcc_for, glibcxx, machine_need, provided
from xpubuild.supply.conda.model import CondaLock
from xpubuild.supply.conda.traps import kind_of


@frozen
class CondaEnvironmentProof:
    """The environment matches the lock and can build for XPU. ``root`` is the root folder of the host."""

    env: str
    lock: CondaLock
    root: str = "/"

    def describe(self) -> str:
        """Return what is checked."""
        return (
            f"environment has the {len(self.lock.packages)} packages of the conda lock and no conflicting "
            "ones"
        )

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "conda-environment", "env": self.env, "lock": self.lock.digest}

    def check(self) -> dict[str, Any]:
        """Return Python's version, the hashes and what the packages would have run.

        Raises:
            ToolchainError: a package is missing, another or harmful, Python does not run, or libstdc++ is
                older than the machine needs.
        """
        env = Path(self.env)
        wrong = problems(env, self.lock.packages)
        wrong += [f"{name} is installed: {reason}" for name in installed(env) if (reason := kind_of(name))]
        if wrong:
            raise self._error("; ".join(wrong[:3]), {"problems": wrong[:50]})
        wanted = self.lock.python
        facts = probe_python(env / "bin" / "python", deadline_s=PATIENT_S)
        if facts.error or not facts.version.startswith(wanted):
            raise self._error(facts.error or f"its Python is {facts.version}, the lock says {wanted}", {})
        return {
            "python": facts.version,
            "packages": {item.filename: item.sha256 for item in self.lock.packages},
            "left_out": list(self.lock.left_out),
            "activation_scripts_not_run": sorted(path.name for path in env.glob("etc/conda/activate.d/*")),
            "libstdcxx": self._libstdcxx(env),
        }

    def _libstdcxx(self, env: Path) -> dict[str, str]:
        library = env / "lib" / STDLIB
        if not library.exists():
            return {}
        has, need = provided(library) or "no GLIBCXX version", machine_need(Path(self.root))
        if need is not None and glibcxx(has) < glibcxx(need.version):
            owner = self._owner(env)
            gcc = gcc_for(need.version)
            raise ToolchainError(
                f"the libstdc++ of the conda package {owner} is older than this machine needs",
                why=(
                    f"{library} has symbols up to {has}, {need.source} needs {need.version}; the "
                    "environment's Python loads its own libstdc++ first, and the Level Zero driver then "
                    "fails to load"
                ),
                fix=(
                    f"add 'libstdcxx-ng >={gcc}' to toolchain.conda.packages, from a channel that has it, "
                    "and create the lock again"
                )
                if gcc
                else "add a newer libstdcxx-ng to toolchain.conda.packages and create the lock again",
                evidence={"package": owner, "has": has, "needs": need.version, "by": need.source},
            )
        return {"has": has, "needs": need.version if need else "", "by": need.source if need else ""}

    def _owner(self, env: Path) -> str:
        owners = (item for item in installed(env).values() if f"lib/{STDLIB}" in item.files)
        return next((f"{item.name} {item.version}" for item in owners), f"that has lib/{STDLIB}")

    def _error(self, why: str, evidence: dict[str, Any]) -> ToolchainError:
        return ToolchainError(
            f"the conda environment {self.env} does not match the lock",
            why=why,
            fix="run the same command again: the step that creates it will run again",
            evidence={"env": self.env, **evidence},
        )


class CondaMklProof(MklStaticProof):
    """Static MKL of conda packages, which are recorded in ``conda-meta`` instead of ``.dist-info``."""

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {**super().key(), "packages": "conda"}

    def _distributions(self, root: Path) -> dict[str, str]:
        found = ((name.replace("-", "_"), item.version) for name, item in installed(root).items())
        return {name: version for name, version in found if name in DISTRIBUTIONS}


def mkl_proof(env: str, lock: CondaLock) -> CondaMklProof | None:
    """Return the proof for a lock with static MKL in it; None where it has none."""
    version = next((item.version for item in lock.packages if item.name == "mkl-static"), None)
    return CondaMklProof(env, version) if version else None
