"""Finds the program uv: beside the interpreter that runs xpubuild, or in PATH."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.version import Version

from xpubuild.engine.answers import FRESH, Answers, says_itself
from xpubuild.engine.environment import usable_path
from xpubuild.engine.results import QueryResult, how_ended
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen

#: The first that makes hard links where the file system has no reflinks (uv's changelog, 0.10.5, #18104).
OLDEST = "0.10.5"
_VERSION = re.compile(r"^uv (\d+\.\d+\.\d+)")
_DEADLINE_S = 10.0


@frozen
class Program:
    """The program uv; where it cannot be used, ``why`` says that, and ``remedy`` a command to mend it."""

    path: str = ""
    version: str = ""
    why: str = ""
    remedy: str = ""


def find_uv(
    environment: Mapping[str, str],
    python: str = sys.executable,
    deadline_s: float = _DEADLINE_S,
    answers: Answers = FRESH,
) -> Program:
    """Return the uv beside the interpreter ``python``, else that of PATH."""
    path, _ = usable_path(environment.get("PATH", os.defpath))
    # Not resolved: the interpreter of a virtual environment is a link to one elsewhere.
    found = shutil.which("uv", path=os.pathsep.join((str(Path(python).parent), path)))
    if found is None:
        return Program(why="uv is not installed", remedy=shlex.join([python, "-m", "pip", "install", "uv"]))
    version, why = _version(found, environment, deadline_s, answers)
    # It puts one beside ``python``, which comes before that of PATH.
    remedy = shlex.join([python, "-m", "pip", "install", "--force-reinstall", "uv"]) if why else ""
    return Program(found, version, why, remedy)


def _version(
    program: str, environment: Mapping[str, str], deadline_s: float, answers: Answers
) -> tuple[str, str]:
    """Return the version that uv says, "" where it says none, and why it cannot be used, "" where it can."""
    try:
        answer = answers.probe(
            [program, "--version"], env=environment, decides=_by_itself, deadline_s=deadline_s
        )
    except XpuBuildError as error:
        return "", f"{program} does not run: {error.why}"
    version = _VERSION.match(answer.stdout)
    if answer.timed_out:
        return "", f"{program} does not say its version within {deadline_s:g} s"
    if not answer.ok:
        return "", f"{program} does not say its version: it {how_ended(answer.returncode)}"
    if version is None:
        return "", f"{program} does not say its version"
    if Version(version[1]) < Version(OLDEST):
        return version[1], f"uv {version[1]} is older than {OLDEST}"
    return version[1], ""


def _by_itself(result: QueryResult, program: Path) -> Sequence[str] | None:
    version = _VERSION.match(result.stdout)
    return says_itself(program, [version[1]]) if version else None
