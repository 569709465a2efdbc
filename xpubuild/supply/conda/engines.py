"""The programs that solve and install: conda-lock, a conda executable, py-rattler.

conda-lock itself searches for an executable for a minute, and then downloads one. So it is run only if one
was found, with its path.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

#: In the order in which they are taken; micromamba needs no Python of its own.
EXECUTABLES = ("micromamba", "mamba", "conda")
_VARIABLES = ("MAMBA_EXE", "CONDA_EXE")


@frozen
class Engines:
    """Paths of what was found; ``rattler`` is an interpreter that has py-rattler."""

    conda: str | None = None
    conda_lock: str | None = None
    rattler: str | None = None


def find_engines(environment: Mapping[str, str]) -> Engines:
    """Look for the programs; nothing is run.

    An activated conda names its program in MAMBA_EXE or CONDA_EXE, also where it is a shell function.
    """
    path = environment.get("PATH", "")
    found = (shutil.which(name, path=path) for name in EXECUTABLES)
    named = (shutil.which(environment.get(name) or "/nonexistent") for name in _VARIABLES)
    beside = Path(sys.executable).parent / "conda-lock"
    return Engines(
        conda=next(filter(None, (*found, *named)), None),
        conda_lock=shutil.which(str(beside)) or shutil.which("conda-lock", path=path),
        rattler=sys.executable if importlib.util.find_spec("rattler") else None,
    )


def missing(doing: str, engines: Engines) -> ToolchainError:
    """Return the error for a machine that can neither solve nor install."""
    found = (("conda", engines.conda), ("conda-lock", engines.conda_lock))
    have = next((f", only {name} was found" for name, path in found if path), "")
    return ToolchainError(
        f"conda packages cannot be {doing} on this machine",
        why=f"py-rattler is not installed in xpubuild's environment{have}",
        fix="install xpubuild's extra 'conda'; then no conda, mamba or micromamba is needed",
        commands=(shlex.join([sys.executable, "-m", "pip", "install", *_extra()]),),
        evidence={"conda": engines.conda or "", "conda-lock": engines.conda_lock or ""},
    )


def _extra() -> list[str]:
    """Return the packages of the extra 'conda'; xpubuild itself is usually installed from a checkout."""
    listed = (line.partition(";") for line in importlib.metadata.requires("xpubuild") or ())
    return [
        package.strip() for package, _, marker in listed if "extra == 'conda'" in marker.replace('"', "'")
    ]
