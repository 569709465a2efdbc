"""Chooses the Python of the environment, and rejects unsuitable ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version

from xpubuild.engine.child import resolve_executable
from xpubuild.errors import ToolchainError, UnsatisfiableError, UsageError
from xpubuild.machine.packages import install_commands, package_names
from xpubuild.machine.pythons import PATIENT_S, PythonFacts, probe_python
from xpubuild.machine.system import OsFacts

_BITS = 64


def resolve_python(given: str | None, environment: Mapping[str, str]) -> Path:
    """Return the path of the interpreter that ``--python`` names; without one, that of xpubuild itself.

    A name without a slash is looked up on the PATH of ``environment``. Of a virtual environment that xpubuild
    runs in, the Python behind it is meant: the workspace must not depend on that environment.

    Raises:
        UsageError: there is no such file, or it is a folder.
        ToolchainError: no program of that name is on PATH.
    """
    if given is None:
        return Path(os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable))
    if os.sep not in given and given not in ("", os.curdir, os.pardir):
        try:
            return Path(resolve_executable(given, environment)).absolute()
        except ToolchainError as error:
            name = f"python{given}" if given[:1].isdigit() else "python3"
            error.what = f"there is no Python interpreter '{given}'"
            error.fix = f"pass the path or the name of an interpreter, such as --python {name}"
            raise
    path = Path(given).expanduser().absolute()
    if path.is_dir():
        inside = path / "bin" / "python3"
        raise UsageError(
            f"--python {given} is a folder",
            why="the path of an interpreter is needed",
            fix=f"use the program inside: --python {inside}"
            if inside.exists()
            else "pass the path of the python3 program",
        )
    if not path.exists():
        raise UsageError(
            f"--python {given} was not found",
            why="there is no such file",
            fix="pass the path or the name of a Python interpreter, such as --python python3",
        )
    return path


def require_python(
    executable: Path,
    needs: str,
    *,
    system: OsFacts,
    environment: Mapping[str, str] | None = None,
    known: PythonFacts | None = None,
) -> PythonFacts:
    """Return the facts of an interpreter that can make the environment and build extensions.

    ``needs`` is the recipe's version specifier; what the host report knows (``known``) is not asked again.

    Raises:
        UnsatisfiableError: its version is not what the recipe needs.
        ToolchainError: it does not run, is not CPython with 64 bits, or Python.h is missing.
    """
    facts = known if known is not None and known.executable == str(executable) and not known.error else None
    facts = facts or probe_python(executable, environment, deadline_s=PATIENT_S)
    _require_kind(facts)
    _require_version(facts, needs)
    if not facts.headers:
        short = ".".join(facts.version.split(".")[:2])
        raise ToolchainError(
            f"the headers of Python {facts.version} are missing",
            why=f"{facts.include}/Python.h does not exist, but all extensions need it",
            fix=f"install {package_names('python-headers', system, short)}, or choose another --python",
            commands=install_commands("python-headers", system, short),
            evidence={"python": str(executable), "include": facts.include},
        )
    return facts


def _require_kind(facts: PythonFacts) -> None:
    if facts.error:
        raise ToolchainError(
            f"{facts.executable} is not a working Python",
            why=facts.error,
            fix="use another interpreter with --python",
            commands=(f"'{facts.executable}' --version",),
        )
    if facts.implementation != "CPython":
        raise ToolchainError(
            f"{facts.executable} is {facts.implementation}",
            why="PyTorch only supports CPython",
            fix="use a CPython interpreter with --python",
        )
    if facts.bits != _BITS:
        raise ToolchainError(
            f"{facts.executable} is a {facts.bits}-bit program",
            why="PyTorch needs a 64-bit Python",
            fix="use another interpreter with --python",
        )


def _require_version(facts: PythonFacts, needs: str) -> None:
    try:
        version = Version(facts.version.rstrip("+"))
    except InvalidVersion:
        version = None
    if version is None or not SpecifierSet(needs).contains(version, prereleases=True):
        raise UnsatisfiableError(
            f"Python {facts.version} is not supported by the recipe",
            why=f"the recipe needs Python {needs}; {facts.executable} is {facts.version}",
            fix=f"use an interpreter with version {needs} with --python",
            evidence={"found": facts.version, "needs": needs},
        )
