"""The conda packages of an environment: from a given lock, the workspace's own, or solved now."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import platformdirs
from packaging.utils import canonicalize_name

from xpubuild.engine.environment import base_environment
from xpubuild.engine.model import XPUBUILD, Command, Step
from xpubuild.errors import FetchError, RecipeError, UnsatisfiableError, UsageError
from xpubuild.install.environment_steps import toolchain_step
from xpubuild.install.target import Choice, Target
from xpubuild.machine.envmark import MARK
from xpubuild.recipe.model import Toolchain
from xpubuild.supply.conda.environment import CondaEnvironmentProof
from xpubuild.supply.conda.lockfile import CondaLock, read_lock, resolve
from xpubuild.supply.conda.solve import Wanted, find_conda_lock, make_lock
from xpubuild.supply.depot.folder import Depot

NAME = "conda-lock.yml"


def conda_lock(choice: Choice) -> str:
    """Return the text of the conda-lock.yml that the environment is made from.

    A lock that the workspace has is kept while recipe and Python ask for the same. Channels that were named
    are asked instead of the recipe's.

    Raises:
        UnsatisfiableError: the recipe names no conda packages, or they do not go together.
        RecipeError: the lock is none.
        FetchError: offline, and there is no lock; or a channel cannot be reached.
        ToolchainError: nothing here can solve.
    """
    options = choice.options
    if options.conda_lock is not None:
        return _read(options.conda_lock)
    wanted = _wanted(choice)
    for text in _known(choice):
        # One that answers the same question.
        if read_lock(text).content_hash == wanted.content_hash():
            return text
    if options.offline:
        raise FetchError(
            "the conda packages of this build are unknown, and the run is offline",
            why=f"they are solved once from the channels, and the workspace has no {NAME} that matches",
            fix=f"solve on a machine with a network, and pass the lock with --conda-lock {NAME}",
            commands=(f"xpubuild fetch {choice.recipe.name} --packages conda --mirror DIR",),
            evidence={"reason": "offline"},
        )
    solver, cache = find_conda_lock(os.environ), platformdirs.user_cache_path("xpubuild") / "conda"
    return make_lock(wanted, solver, environment=base_environment(), cache=cache, report=options.report)


def file_name(recipe: str) -> str:
    """Return the name under which a mirror, or a folder with a lock, has the conda-lock.yml of a recipe."""
    return f"{recipe}.{NAME}"


def _known(choice: Choice) -> Iterator[str]:
    """Yield the lock of the workspace, and those that a fetch of this recipe left in the mirror."""
    kept, folder = choice.layout.root / NAME, choice.options.mirror_folder
    if choice.options.update:
        return
    if kept.is_file():
        yield _read(kept)
    if folder is not None and folder.is_dir():
        mirror, name = Depot.open(folder), file_name(choice.recipe.name)
        for entry in mirror.files():
            if entry.kind == "conda" and entry.name == name:
                yield mirror.file(entry).read_text("utf-8")


def _wanted(choice: Choice) -> Wanted:
    tools = choice.recipe.toolchain
    if tools.conda is None or not tools.conda.packages or not tools.conda.channels:
        what = f"recipe '{choice.recipe.name}' lists no conda packages or no channels"
        why = "--packages conda installs the packages of toolchain.conda in the recipe"
        fix = "use --packages venv, or write a recipe that extends this one and has toolchain.conda"
        raise UnsatisfiableError(what, why=why, fix=fix)
    channels = resolve(choice.options.conda_channel or tools.conda.channels)
    return Wanted(specifications(tools, _minor(choice.options.python)), channels)


def _minor(python: str | None) -> str:
    """Return the version of Python that conda is asked for: 3.12, also where python3.12 is named."""
    if python is None:
        return f"{sys.version_info.major}.{sys.version_info.minor}"
    found = re.fullmatch(r"(?:.*/)?(?:python)?(3\.\d+)(?:\.\d+)?", python)
    if found is None:
        why = "with --packages conda, the interpreter is a conda package"
        fix = "pass a version, such as --python 3.12"
        raise UsageError(f"--python {python} is not a version that conda can install", why=why, fix=fix)
    return found[1]


def _read(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fix = "check the path of --conda-lock"
        raise RecipeError(f"the conda lock {path} cannot be read", why=str(error), fix=fix) from error
    read_lock(text, name=str(path))
    return text


#: What conda installs as a program that pip has a wheel of, too.
_FROM_CONDA = frozenset({"cmake", "ninja"})
#: A pin of a requirements file, with the lines of its hashes.
_ENTRY = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)\s*==.*(?:\n(?![A-Za-z0-9#]).*)*\n?", re.MULTILINE)


def conda_steps(target: Target) -> list[Step]:
    """Return the steps that make the environment from the lock and fill it."""
    lock = read_lock(target.conda_lock or "")
    left, steps = _left(target, lock), [_environment_step(target, lock)]
    if names := [name for name in left if _ENTRY.search(left[name])]:
        step = toolchain_step(replace(target, requirements={**target.requirements, **left}), names)
        steps.append(replace(step, title="install build tools and MKL that conda does not provide"))
    return steps


def conda_files(target: Target) -> dict[str, str]:
    """Return the texts that the steps read: the lock, and what stands in for requirement files."""
    left = _left(target, read_lock(target.conda_lock or ""))
    files = {str(target.requirement_path(name)): text for name, text in left.items()}
    return {**files, str(target.layout.root / NAME): target.conda_lock or ""}


def specifications(tools: Toolchain, python: str) -> tuple[str, ...]:
    """Return what is asked of the solver; ``{python}`` stands for the version of Python, such as 3.12."""
    return tuple(item.replace("{python}", python) for item in (tools.conda.packages if tools.conda else ()))


def _environment_step(target: Target, lock: CondaLock) -> Step:
    env, path = target.layout.env, str(target.layout.root / NAME)
    cache, python = str(target.cache / "conda"), lock.python
    argv = (XPUBUILD, "plumbing", "conda-env", str(env), "--lock", path, "--cache", cache)
    portable = (shlex.join(["conda-lock", "install", "--prefix", str(env), path]),)
    command = Command(argv=argv, tuning=target.downloads.environment(), portable=portable)
    return Step(
        id="env", title=f"create conda environment with Python {python}", commands=(command,),
        proofs=(CondaEnvironmentProof(str(env), lock),), inputs=(path,),
        outputs=(str(env), str(env.parent / f".{env.name}.conda")),
        witnesses=(
            str(target.layout.python),
            str(env / MARK),
            *(str(env / "conda-meta" / f"{p.name}-{p.version}-{p.build}.json") for p in lock.packages),
        ),
        relevant={"python": python, "lock": lock.digest},
    )  # fmt: skip


def _left(target: Target, lock: CondaLock) -> dict[str, str]:
    """Return the recipe's requirement files of the toolchain without what must not come from pip here."""
    names = target.recipe.toolchain.requirements
    return {name: remaining(target.requirements[name], lock) for name in names}


def remaining(text: str, lock: CondaLock) -> str:
    """Return a hashed requirements file without the programs that conda installed.

    Python packages that conda installed stay in it (setuptools): the file's pin is the one to build with.
    """
    gone = _FROM_CONDA.intersection(package.name for package in lock.packages)
    return _ENTRY.sub(lambda entry: "" if canonicalize_name(entry[1]) in gone else entry[0], text)
