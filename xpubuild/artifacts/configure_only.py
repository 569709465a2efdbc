"""Configures a source tree as its own build does, and stops before anything is compiled."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpubuild.artifacts.tree_kind import TreeKind, look
from xpubuild.engine.process import run
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import RecipeError

# PyTorch up to 2.13: setup.py with these options of its own removes CMakeCache.txt, runs CMake and ends
# (pytorch/pytorch setup.py, RERUN_CMAKE and CMAKE_ONLY).
_SETUP_PY = ("setup.py", "build", "--cmake", "--cmake-only")
# From 2.14 its back end is scikit-build-core (pytorch/pytorch PR 180247), which always builds and installs
# after it has configured. `help` is a target of every ninja file of CMake and only lists the others; there is
# no component of this name to install.
_SCIKIT = ("build.targets=help", "install.components=none")


def configure_argv(
    kind: TreeKind, python: str, folder: Path, settings: Sequence[str], into: str
) -> list[str]:
    """Return the command that configures a tree; ``into`` is where a wheel without content may go.

    Raises:
        RecipeError: the tree has no build that can be stopped there.
    """
    if kind.scikit:
        asked = [part for item in (*settings, *_SCIKIT) for part in ("--config-settings", item)]
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
        env = {**environ, "PYTHONNOUSERSITE": "1"}
        result = run(argv, env=env, cwd=folder, log=sys.stdout.buffer)
    return 0 if result.ok else max(result.returncode, 1)
