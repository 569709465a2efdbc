"""The mark in an environment that xpubuild creates: whether it is complete, and what it was created for.

It is written before anything else and again at the end, so an interrupted environment is marked as not ready,
and a folder without a mark was not made by xpubuild.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from xpubuild.engine.files import read_json, remove_tree, write_json
from xpubuild.engine.temporary import DRAFT
from xpubuild.errors import UsageError

MARK = ".xpubuild-env.json"
_INTERPRETER = re.compile(r"python(3(\.\d+t?)?)?")
#: Beside an interpreter they decide where its modules are.
_LANDMARKS = ("bin/pyvenv.cfg", "bin/pybuilddir.txt", "bin/*._pth")


def check_name(env: Path) -> None:
    """Refuse a path that cannot be on PATH, or that pip and CMake would cut.

    Raises:
        UsageError: it holds a colon, a semicolon or a line break.
    """
    if any(character in str(env) for character in (os.pathsep, ";", "\n")):
        raise UsageError(
            f"no environment can be created in {env}",
            why=f"its path has a '{os.pathsep}' or a line break, which PATH does not allow, or a ';',"
            " at which pip and CMake cut it",
            fix="use another --workspace",
        )


def read_mark(env: Path) -> dict[str, Any] | None:
    """Return what the mark says; None where there is none that can be read."""
    return read_json(env / MARK) or None


def write_mark(env: Path, document: Mapping[str, Any]) -> None:
    """Write the mark, whole or not at all."""
    write_json(env / MARK, document)


def mark_and_empty(env: Path, wanted: Mapping[str, Any]) -> None:
    """Mark an environment as one that is being made, and empty it; the caller explains errors of files."""
    env.mkdir(parents=True, exist_ok=True)
    write_mark(env, {"state": "making", **wanted})
    for entry in env.iterdir():
        if entry.name != MARK:
            remove_tree(entry)


def require_ours(env: Path) -> None:
    """Refuse a folder with anything in it that xpubuild did not make.

    Raises:
        UsageError: there is such a thing; nothing is touched.
    """
    if not os.path.lexists(env) or read_mark(env) is not None:
        return
    # Killed before the first mark was in place, this program leaves an empty folder or the mark's draft.
    drafts = (f".{MARK}.", DRAFT)  # the first is how 0.1 named them
    if env.is_dir() and all(e.name.startswith(drafts) and e.name != MARK for e in env.iterdir()):
        return
    raise UsageError(
        f"{env} already exists and was not created by xpubuild",
        why="xpubuild does not change files that it did not make",
        fix="use another --workspace, or move that folder away",
    )


def settings_of(env: Path) -> dict[str, list[str]]:
    """Return what pyvenv.cfg says, every value of a key; nothing of one that cannot be read."""
    try:
        lines = (env / "pyvenv.cfg").read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, list[str]] = {}
    for key, equals, value in (line.partition("=") for line in lines):
        found.setdefault(key.strip().lower(), []).extend([value.strip()] if equals else [])
    return found


def altered(env: Path) -> dict[Path, str]:
    """Return what changes the meaning of imports in an environment of xpubuild: path -> what it is.

    Nothing is run: an interpreter that was replaced would run too.
    """
    base = str((read_mark(env) or {}).get("base", ""))
    if not base or not (env / "bin").is_dir() or (env / "conda-meta").is_dir():
        return {}
    real, settings, found = os.path.realpath(base), settings_of(env), dict[Path, str]()
    paths = {path for path in (env / "bin").iterdir() if _INTERPRETER.fullmatch(path.name)}
    for path in sorted(paths | {env / "bin" / "python"}):
        if os.path.realpath(path) != real:
            found[path] = f"it is not the interpreter {base} that the environment was made of"
    homes = [Path(home) for home in settings.get("home", ())]
    if settings.get("include-system-site-packages") != ["false"]:
        found[env / "pyvenv.cfg"] = "it does not keep the packages of the machine out"
    elif len(homes) != 1 or real not in map(os.path.realpath, homes[0].glob("python*")):
        found[env / "pyvenv.cfg"] = f"its home is not the folder of {base}"
    marks = [path for pattern in _LANDMARKS for path in sorted(env.glob(pattern))]
    return found | dict.fromkeys(marks, "Python would look for its modules where this file says")
