"""Python interpreters: facts about one, by running it, and the list of those on PATH, from files only."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from xpubuild.engine.answers import FRESH, Answers
from xpubuild.engine.environment import base_environment
from xpubuild.engine.process import QueryResult
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import LIVE_ROOT, UNKNOWN, exists, inside, read_bytes, read_text

_DEADLINE_S = 10.0
PATIENT_S = 180.0
_NAME = re.compile(r"python(3(\.\d+t?)?)?")
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
        said = (result.stderr or result.stdout).strip().splitlines()
        if said and _PROBE.strip().partition("\n")[0] in said[-1]:
            said = []  # a program that is no Python repeats the probe
        if result.timed_out:
            return PythonFacts(path, error=f"it did not answer within {deadline_s:.0f} s")
        ending = f"exited with code {result.returncode}"
        # A traceback says last what happened; others, such as the shim of a version manager, say it first.
        line = said[-1 if said[:1] == ["Traceback (most recent call last):"] else 0] if said else ""
        return PythonFacts(path, error=f"{ending}: {line}" if said else ending)
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
