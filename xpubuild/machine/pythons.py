"""Python interpreters: facts about one, by running it, and the list of those on PATH, from files only."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from xpubuild.engine.answers import FRESH, Answers
from xpubuild.engine.child import resolve_executable
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import QueryResult
from xpubuild.errors import ToolchainError, UnsatisfiableError, UsageError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, exists, inside, read_bytes, read_text
from xpubuild.machine.system import OsFacts, install_commands, package_names
from xpubuild.machine.versions import parse

_DEADLINE_S = 10.0
PATIENT_S = 180.0
_NAME = re.compile(r"python(3(\.\d+t?)?)?")
_LINE = re.compile(r"3\.\d+t?")
_VERSIONED = re.compile(r"python(3\.\d+)(t?)")
_PATCHLEVEL = re.compile(r'^#define PY_VERSION\s+"([^"]+)"', re.MULTILINE)
_ELF = b"\x7fELF"
# Runs in the interpreter that is looked at, hence only what every Python 3 (and 2.7) understands.
_PROBE = """
import json, os, platform, struct, sys, sysconfig
def there(name):
    try:
        __import__(name)
    except ImportError:
        return False
    return True
def loaded():
    # Every file of this process: the program, its libraries, modules and the folders that may get new ones.
    try:
        with open("/proc/self/maps") as maps:
            mapped = [line.split(None, 5)[5].strip() for line in maps if "/" in line]
    except (IOError, IndexError):
        return None
    own = os.path.dirname(sys.executable)
    places = [os.path.join(folder, "pyvenv.cfg") for folder in (own, os.path.dirname(own))]
    modules = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    known = mapped + places + modules + sys.path + [os.path.join(include, "Python.h")]
    return sorted(set(path for path in known if path and os.path.isabs(path)))
include = sysconfig.get_paths().get("include") or ""
print(json.dumps({
    "version": platform.python_version(),
    "implementation": platform.python_implementation(),
    "bits": struct.calcsize("P") * 8,
    "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "virtual": sys.prefix != getattr(sys, "base_prefix", sys.prefix),
    "base_executable": os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable),
    "include": include,
    "headers": os.path.isfile(os.path.join(include, "Python.h")),
    "ensurepip": there("ensurepip") and there("venv"),
    "program": os.path.realpath("/proc/self/exe"),
    "loaded": loaded(),
}))
"""


@frozen
class PythonFacts:
    """``headers`` is whether Python.h is there, ``ensurepip`` whether ``python -m venv`` can work.

    ``executable`` is the path that was looked at, ``base_executable`` the real program behind it. ``error``
    is empty, or why the interpreter could not be asked.
    """

    executable: str
    version: str = UNKNOWN
    implementation: str = UNKNOWN
    bits: int | None = None
    free_threaded: bool | None = None
    virtual: bool | None = None
    base_executable: str = UNKNOWN
    include: str = UNKNOWN
    headers: bool | None = None
    ensurepip: bool | None = None
    error: str = ""


def probe_python(
    executable: Path,
    environment: Mapping[str, str] | None = None,
    *,
    deadline_s: float = _DEADLINE_S,
    answers: Answers = FRESH,
) -> PythonFacts:
    """Run an interpreter and return what it says; never raises, ``error`` says what went wrong.

    Where a result depends on the answer, ``deadline_s`` is ``PATIENT_S``: on a machine with much to do the
    start of a Python takes its time.
    """
    path = str(executable)
    try:
        result = answers.probe(
            [path, "-I", "-c", _PROBE],
            env=base_environment() if environment is None else environment,
            decides=_loaded,
            deadline_s=deadline_s,
        )
    except (XpuBuildError, OSError) as error:
        return PythonFacts(path, error=str(error))
    try:
        document = json.loads(result.stdout)
    except ValueError:
        document = None
    if not result.ok or not isinstance(document, dict):
        printed = (result.stderr or result.stdout).strip().splitlines()
        if printed and _PROBE.strip().partition("\n")[0] in printed[-1]:
            printed = []  # a program that is no Python repeats the probe
        if result.timed_out:
            return PythonFacts(path, error=f"it did not answer within {deadline_s:.0f} s")
        ending = f"exited with code {result.returncode}"
        # A traceback says last what happened; others, such as the shim of a version manager, say it first.
        line = printed[-1 if printed[:1] == ["Traceback (most recent call last):"] else 0] if printed else ""
        return PythonFacts(path, error=f"{ending}: {line}" if printed else ending)
    return _checked(path, document)


def _loaded(result: QueryResult, program: Path) -> Sequence[str] | None:
    """Return what an interpreter has read; None where it is not the program that was started: a shim."""
    try:
        document = json.loads(result.stdout)
        return document["loaded"] if document["program"] == str(program) else None
    except (ValueError, KeyError, TypeError):
        return None


def _checked(path: str, document: Mapping[str, Any]) -> PythonFacts:
    known = {item.name for item in fields(PythonFacts)} - {"executable", "error"}
    return PythonFacts(path, **{name: value for name, value in document.items() if name in known})


def find_pythons(search_path: str, root: Path = LIVE_ROOT) -> tuple[PythonFacts, ...]:
    """Return the CPython installations on ``search_path`` (read below ``root``), each once; runs nothing.

    The version is that of the headers, to the patch level, else that of the file's name.
    """
    found: dict[str, PythonFacts] = {}
    for folder in search_path.split(os.pathsep):
        place = inside(root / folder.lstrip("/"), root)
        for name in _python_names(place):
            facts = _from_files(place / name, root)
            if facts is not None:
                found.setdefault(facts.base_executable, facts)
    return tuple(found.values())


def _python_names(folder: Path) -> list[str]:
    try:
        names = [name for name in os.listdir(folder) if _NAME.fullmatch(name)]  # noqa: PTH208 - names only
    except OSError:
        return []
    return sorted(names, key=lambda name: (len(name), name))


def _from_files(executable: Path, root: Path) -> PythonFacts | None:
    real = Path(os.path.realpath(executable)) if root == LIVE_ROOT else inside(executable, root)
    version = _VERSIONED.fullmatch(real.name)
    # A shim (a script of a version manager) says nothing about what it would run.
    if version is None or read_bytes(real, first=len(_ELF)) != _ELF:
        return None
    prefix = real.parent.parent
    name = f"python{version[1]}{version[2]}"
    include = prefix / "include" / name
    library = next(
        (folder for lib in ("lib", "lib64") if exists((folder := prefix / lib / name) / "os.py", root)), None
    )
    patchlevel = _PATCHLEVEL.search(read_text(include / "patchlevel.h", root) or "")
    shown = str(real) if root == LIVE_ROOT else "/" + str(real.relative_to(root))
    return PythonFacts(
        executable=shown,
        version=patchlevel[1] if patchlevel else version[1],
        implementation="CPython",
        free_threaded=bool(version[2]),
        virtual=False,
        base_executable=shown,
        include=str(include),
        headers=exists(include / "Python.h", root),
        ensurepip=exists(library / "ensurepip/__init__.py", root) if library else None,
    )


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
            name = f"python{given}" if _LINE.fullmatch(given) else given
            return Path(resolve_executable(name, environment)).absolute()
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
        what, why = "is not a working Python", facts.error
    elif facts.implementation != "CPython":
        what, why = f"is {facts.implementation}", "PyTorch only supports CPython"
    elif facts.bits != _BITS:
        what, why = f"is a {facts.bits}-bit program", "PyTorch needs a 64-bit Python"
    else:
        return
    raise ToolchainError(
        f"{facts.executable} {what}",
        why=why,
        fix="use another interpreter with --python",
        commands=(f"'{facts.executable}' --version",),
    )


def _require_version(facts: PythonFacts, needs: str) -> None:
    version = parse(facts.version)
    if version is None or not SpecifierSet(needs).contains(version, prereleases=True):
        raise UnsatisfiableError(
            f"Python {facts.version} is not supported by the recipe",
            why=f"the recipe needs Python {needs}; {facts.executable} is {facts.version}",
            fix=f"use an interpreter with version {needs} with --python",
            evidence={"found": facts.version, "needs": needs},
        )
