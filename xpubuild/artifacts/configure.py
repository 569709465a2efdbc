"""Configures a source tree as its own build does: what kind of tree it is, the command, and the proof."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from xpubuild.artifacts.cmake_build import home_of
from xpubuild.engine.model import SimpleProof
from xpubuild.engine.process import run
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import BuildError, RecipeError, ToolchainError
from xpubuild.frozen import frozen

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

#: What pip takes where ``pyproject.toml`` names no backend, or is not there (PEP 517).
LEGACY = "setuptools.build_meta:__legacy__"
# Understood by scikit-build-core alone; other backends ignore what they do not know.
_SCIKIT = re.compile(
    r"build-dir|cmake\.|ninja\.|wheel\.|editable\.|install\.|build\.|strict-config|skbuild\."
)


@frozen
class TreeKind:
    """``backend`` is what pip will call."""

    files: tuple[str, ...]
    backend: str

    @property
    def scikit(self) -> bool:
        """Whether it is a tree of scikit-build-core."""
        return self.backend.startswith("scikit_build_core")

    def __str__(self) -> str:
        """Say it in a line."""
        return f"{' and '.join(self.files)}, backend {self.backend}"


def look(folder: Path) -> TreeKind:
    """Return what kind of project a folder is.

    Raises:
        RecipeError: it is none.
    """
    present = tuple(name for name in ("pyproject.toml", "setup.py") if (folder / name).is_file())
    if not present:
        raise RecipeError(
            f"{folder} has neither pyproject.toml nor setup.py",
            why="there is nothing to build",
            fix="set build.source_dir to the folder inside the checkout that has one",
        )
    try:
        text = (folder / present[0]).read_text("utf-8", "replace") if present[0] == "pyproject.toml" else ""
        section = tomllib.loads(text).get("build-system", {})
        return TreeKind(present, str(section.get("build-backend", LEGACY)))
    except (tomllib.TOMLDecodeError, RecursionError, AttributeError, TypeError) as error:
        fix = "correct the file, or build another commit"
        raise RecipeError(f"{folder / present[0]} cannot be read", why=str(error), fix=fix) from error


def check(folder: Path, *, wanted: str, settings: Collection[str]) -> str:
    """Compare a tree with what a recipe says about its front end; return what it is.

    Raises:
        RecipeError: the recipe says what the tree cannot do, or would ignore.
        ToolchainError: a file of the user would decide the build.
    """
    kind, own = look(folder), Path(os.path.expanduser("~/.pydistutils.cfg"))  # noqa: PTH111 - never raises
    if kind.backend.startswith("setuptools") and own.is_file():
        raise ToolchainError(
            f"{own} decides how setuptools builds",
            why="what it sets is in no recipe, lock or receipt, and pip cannot tell setuptools to ignore it",
            fix="move it away; what a build needs of it goes into build.env of a recipe",
            commands=(shlex.join(["mv", str(own), f"{own}.aside"]),),
        )
    if wanted == "setup.py" and "setup.py" not in kind.files:
        raise RecipeError(
            f"{folder} has no setup.py, but the recipe sets front_end: setup.py",
            why=f"it has {kind}",
            fix="remove build.front_end from the recipe: pip can build every kind of tree",
        )
    ignored = [] if kind.scikit else sorted(key for key in settings if _SCIKIT.match(key))
    if ignored:
        raise RecipeError(
            f"the recipe's config settings {', '.join(ignored)} would be ignored",
            why=f"they are for scikit-build-core, but the tree has {kind}",
            fix="remove build.config_settings, and set the same with build.env",
        )
    return f"{folder}: {kind}"


# PyTorch up to 2.13: setup.py with these options of its own removes CMakeCache.txt, runs CMake and ends
# (pytorch/pytorch setup.py, RERUN_CMAKE and CMAKE_ONLY).
_SETUP_PY = ("setup.py", "build", "--cmake", "--cmake-only")
# From 2.14 its back end is scikit-build-core (pytorch/pytorch PR 180247), which always builds and installs
# after it has configured. `help` is a target of every ninja file of CMake and only lists the others; there is
# no component of this name to install.
_SCIKIT_STOPS = ("build.targets=help", "install.components=none")


def configure_argv(
    kind: TreeKind, python: str, folder: Path, settings: Sequence[str], into: str
) -> list[str]:
    """Return the command that configures a tree; ``into`` is where a wheel without content may go.

    Raises:
        RecipeError: the tree has no build that can be stopped there.
    """
    if kind.scikit:
        asked = [part for item in (*settings, *_SCIKIT_STOPS) for part in ("--config-settings", item)]
        return [
            python, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--no-input",
            "--disable-pip-version-check", "--verbose", *asked, "--wheel-dir", into, str(folder),
        ]  # fmt: skip
    if "setup.py" in kind.files:
        return [python, *_SETUP_PY]
    raise RecipeError(
        f"{folder} cannot be configured without being built",
        why=f"it has {kind}; a rehearsal knows setup.py of PyTorch and scikit-build-core",
        fix="build it: xpubuild install",
    )


def configure(folder: Path, python: Path, settings: Sequence[str], environ: Mapping[str, str]) -> int:
    """Configure a tree and return the exit status; what it prints goes to standard output.

    Raises:
        RecipeError: see ``configure_argv``.
    """
    kind = look(folder)
    with scratch_folder("rehearse") as scratch:
        argv = configure_argv(kind, str(python), folder, settings, str(scratch))
        sys.stdout.write(f"+ {' '.join(argv)}\n")
        sys.stdout.flush()
        # xpubuild may live in the user's site-packages; what it builds with may not.
        result = run(argv, env={**environ, "PYTHONNOUSERSITE": "1"}, cwd=folder, log=sys.stdout.buffer)
    return 0 if result.ok else max(result.returncode, 1)


def configured_folder(source: str, folders: Sequence[str]) -> Path | None:
    """Return the first of some folders that holds the build of a source tree; None where none does."""
    for folder in map(Path, folders):
        if (folder / "build.ninja").is_file() and home_of(folder) == os.path.realpath(source):
            return folder
    return None


@frozen
class ConfiguredProof(SimpleProof):
    """One of ``folders`` holds what CMake writes at the end of a configuration of ``source``."""

    words = "CMake wrote the build files"

    source: str
    folders: tuple[str, ...]

    def check(self) -> dict[str, Any]:
        """Return where the build files are."""
        folder = configured_folder(self.source, self.folders)
        if folder is None:
            raise BuildError(
                "the configuration ended without an error, but wrote no build files",
                why=f"none of {', '.join(self.folders)} has a build.ninja of {self.source}",
                fix="read CMake's messages in the log",
            )
        return {"build": str(folder)}
