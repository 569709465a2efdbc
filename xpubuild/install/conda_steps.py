"""The steps that create and fill an environment of conda packages. Pure.

The first step installs the packages of ``conda-lock.yml`` in the workspace. The second installs the rest of
the recipe's requirement files with pip: packages that conda has installed, and libraries that only pip's MKL
requires, are removed from them. All further steps are the same as for a virtual environment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.engine.model import XPUBUILD, Command, Proof, Step
from xpubuild.frozen import frozen
from xpubuild.install import env_steps
from xpubuild.install.context import Context
from xpubuild.machine.envmark import MARK
from xpubuild.recipe.model import Toolchain
from xpubuild.supply.conda.install import lock_digest, python_version
from xpubuild.supply.conda.lockfile import read_lock, split_filename
from xpubuild.supply.conda.model import CondaLock
from xpubuild.supply.conda.proofs import CondaEnvironmentProof, mkl_proof
from xpubuild.supply.conda.traps import kind_of

#: What conda installs as a program or library that pip has a wheel of, too.
_FROM_CONDA = frozenset({"cmake", "ninja", "mkl-static", "mkl-include", "onemkl-license"})
_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:==|===)", re.MULTILINE)


@frozen
class CondaFacts:
    """The lock of the environment as text; it is put into the workspace for the step to read."""

    text: str

    @property
    def lock(self) -> CondaLock:
        """The lock."""
        return read_lock(self.text)

    @property
    def digest(self) -> str:
        """One number for what is installed."""
        return lock_digest(self.lock)

    def steps(self, context: Context) -> list[Step]:
        """Return the steps that make the environment and fill it."""
        rest = toolchain_step(context, self)
        return [environment_step(context, self), *([rest] if rest is not None else [])]

    def requirements(self, context: Context) -> dict[str, str]:
        """Return the texts of the toolchain's requirement files that stand in for the recipe's."""
        return remaining_files(context, self)

    def files(self, context: Context) -> dict[str, str]:
        """Return the texts that the steps read, for ``Plan.files``."""
        return {str(lock_path(context)): self.text}


def lock_path(context: Context) -> Path:
    """Return where the plan puts the lock."""
    return context.layout.root / "conda-lock.yml"


def specifications(tools: Toolchain, python: str) -> tuple[str, ...]:
    """Return what is asked of the solver; ``python`` is a version such as 3.12 or 3.12.4.

    ``{python}`` stands for the minor version, ``{mkl}`` for the recipe's MKL, any
    where it names none.
    """
    values = {"{python}": ".".join(python.split(".")[:2]), "{mkl}": f"=={tools.mkl}" if tools.mkl else "*"}
    return tuple(_filled(item, values) for item in (tools.conda.packages if tools.conda else ()))


def _filled(template: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        template = template.replace(name, value)
    return template


def environment_step(context: Context, conda: CondaFacts) -> Step:
    """Return the step that makes the environment from the lock."""
    env, lock = context.layout.env, conda.lock
    path, cache = str(lock_path(context)), str(context.facts.cache / "conda")
    python = python_version(lock)
    proofs: tuple[Proof, ...] = (CondaEnvironmentProof(str(env), lock),)
    mkl = mkl_proof(str(env), lock)
    command = Command(
        argv=(XPUBUILD, "plumbing", "conda-env", str(env), "--lock", path, "--cache", cache),
        tuning=context.downloads(),
        portable=(shlex.join(["conda-lock", "install", "--prefix", str(env), path]),),
    )
    return Step(
        id="env",
        title=f"create conda environment with Python {python}",
        commands=(command,),
        proofs=(*proofs, mkl) if mkl else proofs,
        inputs=(path,),
        outputs=(str(env), str(env.parent / f".{env.name}.conda")),
        witnesses=(str(context.layout.python), str(env / MARK), *_records(env, lock)),
        relevant={"python": python, "lock": lock_digest(lock)},
    )


def _records(env: Path, lock: CondaLock) -> Iterable[str]:
    for package in lock.packages:
        if split_filename(package.filename):
            stem = package.filename.removesuffix(".conda").removesuffix(".tar.bz2")
            yield str(env / "conda-meta" / f"{stem}.json")


def toolchain_step(context: Context, conda: CondaFacts) -> Step | None:
    """Return the step in which pip installs what conda does not provide; None if nothing is left.

    The plan must write ``remaining_files`` in place of the recipe's files.
    """
    left = remaining_files(context, conda)
    names = [name for name in context.recipe.toolchain.requirements if _ENTRY.search(left[name])]
    if not names:
        return None
    facts = replace(context.facts, requirements={**context.facts.requirements, **left})
    tools = context.recipe.toolchain.model_copy(update={"mkl": None, "requirements": names, "leave_out": []})
    recipe = context.recipe.model_copy(update={"toolchain": tools})
    request = replace(context.request, loaded=context.request.loaded.model_copy(update={"recipe": recipe}))
    step = env_steps.toolchain_step(replace(context, request=request, facts=facts))
    return replace(step, title="install build tools that conda does not provide")


def remaining_files(context: Context, conda: CondaFacts) -> dict[str, str]:
    """Return the recipe's requirement files of the toolchain without what must not come from pip here."""
    lock = conda.lock
    texts = context.facts.requirements
    return {name: remaining(texts[name], lock) for name in context.recipe.toolchain.requirements}


def remaining(text: str, lock: CondaLock) -> str:
    """Return a hashed requirements file without what conda brought and what shadows oneAPI.

    Python packages that conda brought stay in it (setuptools): the file's pin is the one to build with.
    """
    there = {canonicalize_name(package.name) for package in lock.packages}
    gone = {name for name in _FROM_CONDA if name in there}
    if "mkl-static" in there:
        # pip's MKL is not installed, and so nothing that only it needs.
        gone |= {"onemkl-license", "mkl-devel"}
    kept, dropping = [], False
    for line in text.splitlines(keepends=True):
        entry = _ENTRY.match(line)
        if entry:
            name = canonicalize_name(entry[1])
            dropping = name in gone or ("mkl-static" in there and kind_of(name) is not None)
        elif line.startswith("#") and not line[:1].isspace():
            dropping = False
        if not dropping:
            kept.append(line)
    return "".join(kept)
