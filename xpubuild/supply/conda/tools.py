"""The programs that solve and install: py-rattler in a process of its own, conda-lock where it is installed.

conda-lock itself searches for a conda executable for a minute, and then downloads one. So it is run only if
one was found, with its path.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.process import query
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

#: In the order in which they are taken; micromamba needs no Python of its own.
EXECUTABLES = ("micromamba", "mamba", "conda")
_VARIABLES = ("MAMBA_EXE", "CONDA_EXE")
_SCRIPT = Path(__file__).with_name("rattler_child.py")
#: Repository data of a large channel has 50 MB and more.
_DEADLINE_S = 1800.0


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


def missing(doing: str) -> ToolchainError:
    """Return the error for a machine that can neither solve nor install."""
    listed = (line.partition(";") for line in importlib.metadata.requires("xpubuild") or ())
    # xpubuild itself is usually installed from a checkout.
    extra = [name.strip() for name, _, marker in listed if "extra == 'conda'" in marker.replace('"', "'")]
    return ToolchainError(
        f"conda packages cannot be {doing} on this machine",
        why="py-rattler is not installed in xpubuild's environment",
        fix="install xpubuild's extra 'conda'; then no conda, mamba or micromamba is needed",
        commands=(shlex.join([sys.executable, "-m", "pip", "install", *extra]),),
    )


def tool_failed(tool: str, why: str) -> ToolchainError:
    """Return the error for a tool that failed in a way of its own."""
    return ToolchainError(
        f"{tool} failed",
        why=why or f"{tool} said nothing",
        fix="run the same command again; if it fails again, report it with this message",
    )


def ask_rattler(
    job: Mapping[str, Any], doing: str, engines: Engines, environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the answer of ``rattler_child.py``: ``ok``, or ``error`` (a kind) and ``message``.

    Raises:
        ToolchainError: py-rattler is missing, or ended without an answer.
    """
    if engines.rattler is None:
        raise missing(doing)
    # No file and no argument has the job: channel addresses may carry credentials.
    argv, given = [engines.rattler, "-I", str(_SCRIPT)], json.dumps(job).encode()
    result = query(argv, env=environment, deadline_s=_DEADLINE_S, stdin=given)
    try:
        answer = json.loads(result.stdout)
    except ValueError:
        said = [line for line in result.stderr.splitlines() if line.strip()]
        late = f"it timed out after {_DEADLINE_S / 60:.0f} minutes" if result.timed_out else ""
        raise tool_failed(
            "py-rattler", late or (said[-1] if said else f"status {result.returncode}")
        ) from None
    if answer.get("error") == "missing":
        raise missing(doing)
    return dict(answer)
