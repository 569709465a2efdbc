"""The conda packages of an environment: from a given lock, the workspace's own, or solved now."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path

from xpubuild.engine.environment import base_environment
from xpubuild.errors import FetchError, RecipeError, UnsatisfiableError, UsageError
from xpubuild.frozen import frozen
from xpubuild.install.conda_steps import specifications
from xpubuild.recipe.model import Recipe
from xpubuild.supply.conda.channels import read_condarc, resolve
from xpubuild.supply.conda.engines import find_engines
from xpubuild.supply.conda.host_libstdcxx import machine_need
from xpubuild.supply.conda.install import python_version
from xpubuild.supply.conda.lockfile import read_lock
from xpubuild.supply.conda.solve import Wanted, make_lock
from xpubuild.supply.mirror.store import Mirror
from xpubuild.workspace.layout import Layout

NAME = "conda-lock.yml"


@frozen
class CondaRequest:
    """What ``--env conda`` asks for. ``python`` is --python: a version such as 3.12, or None for this one.

    ``channels`` are asked instead of the recipe's, where there are some.
    """

    recipe: Recipe
    layout: Layout
    cache: Path
    python: str | None = None
    channels: tuple[str, ...] = ()
    lock: Path | None = None
    update: bool = False
    offline: bool = False
    mirror: Path | None = None


def conda_lock(request: CondaRequest, report: Callable[[str], None]) -> str:
    """Return the text of the conda-lock.yml that the environment is made from.

    A lock that the workspace has is kept while recipe and Python ask for the same.

    Raises:
        UnsatisfiableError: the recipe names no conda packages, or they do not go together.
        RecipeError: the lock is none.
        FetchError: offline, and there is no lock; or a channel cannot be reached.
        ToolchainError: nothing here can solve.
    """
    if request.lock is not None:
        return _read(request.lock)
    wanted = _wanted(request)
    kept = request.layout.root / NAME
    if kept.is_file() and not request.update:
        text = _read(kept)
        if read_lock(text).content_hash == wanted.content_hash():
            return text
    found = _from_mirror(request, wanted)
    if found is not None:
        return found
    if request.offline:
        raise FetchError(
            "the conda packages of this build are unknown, and the run is offline",
            why=(
                f"they are solved once from the channels and written to {NAME}; the workspace has no "
                "matching one"
            ),
            fix=f"solve on a machine with a network, and pass the lock with --conda-lock {NAME}",
            commands=(f"xpubuild fetch {request.recipe.name} --env conda --mirror DIR",),
            evidence={"reason": "offline"},
        )
    return make_lock(
        wanted, find_engines(os.environ), environment=base_environment(), cache=request.cache, report=report
    )


def file_name(recipe: str) -> str:
    """Return the name under which a mirror, or a folder with a lock, has the conda-lock.yml of a recipe."""
    return f"{recipe}.{NAME}"


def _from_mirror(request: CondaRequest, wanted: Wanted) -> str | None:
    """Return the lock that a fetch of this recipe left in the mirror, where it answers the same question."""
    if request.mirror is None or not request.mirror.is_dir() or request.update:
        return None
    mirror = Mirror.open(request.mirror)
    for entry in mirror.files():
        if entry.kind == "conda" and entry.name == file_name(request.recipe.name):
            text = mirror.file(entry.sha256).read_text("utf-8")
            if read_lock(text).content_hash == wanted.content_hash():
                return text
    return None


def _wanted(request: CondaRequest) -> Wanted:
    tools = request.recipe.toolchain
    if tools.conda is None or not tools.conda.packages:
        raise UnsatisfiableError(
            f"recipe '{request.recipe.name}' lists no conda packages",
            why="--env conda installs the packages of toolchain.conda in the recipe",
            fix="use --env venv, or write a recipe that extends this one and has toolchain.conda",
        )
    need = machine_need()
    return Wanted(
        specifications(tools, _minor(request.python)),
        resolve(request.channels or tools.conda.channels, read_condarc(os.environ)),
        need.version if need else None,
    )


def _minor(python: str | None) -> str:
    """Return the version of Python that conda is asked for: 3.12, also where python3.12 is named."""
    if python is None:
        return f"{sys.version_info.major}.{sys.version_info.minor}"
    found = re.fullmatch(r"(?:.*/)?(?:python)?(3\.\d+)(?:\.\d+)?", python)
    if found is None:
        raise UsageError(
            f"--python {python} is not a version that conda can install",
            why="with --env conda, the interpreter is a conda package",
            fix="pass a version, such as --python 3.12",
        )
    return found[1]


def _read(path: Path) -> str:
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(
            f"the conda lock {path} cannot be read", why=str(error), fix="check the path of --conda-lock"
        ) from error
    read_lock(text, name=str(path))
    return text


def python_of(lock: str) -> str:
    """Return the version of Python in the text of a conda-lock.yml, such as 3.12.4."""
    return python_version(read_lock(lock))
