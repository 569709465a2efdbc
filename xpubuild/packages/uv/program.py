"""Finds the program uv: beside the interpreter that runs xpubuild, or in PATH."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from xpubuild.engine.environment import usable_path
from xpubuild.engine.process import query
from xpubuild.errors import XpuBuildError

#: The first that makes hard links where the file system has no reflinks (uv's changelog, 0.10.5, #18104).
OLDEST = "0.10.5"
_VERSION = re.compile(r"^uv (\d+\.\d+\.\d+)")
_DEADLINE_S = 10.0


@dataclass(frozen=True)
class Program:
    """The program uv; where it cannot be used, ``why`` says that."""

    path: str = ""
    version: str = ""
    why: str = ""


def find_uv(environment: Mapping[str, str], python: str = sys.executable) -> Program:
    """Return the uv beside the interpreter ``python``, else that of PATH."""
    path, _ = usable_path(environment.get("PATH", os.defpath))
    # Not resolved: the interpreter of a virtual environment is a link to one elsewhere.
    found = shutil.which("uv", path=os.pathsep.join((str(Path(python).parent), path)))
    if found is None:
        return Program(why="uv is not installed")
    try:
        answer = query([found, "--version"], env=environment, deadline_s=_DEADLINE_S)
    except XpuBuildError as error:
        return Program(found, why=f"{found} does not run: {error.why}")
    version = _VERSION.match(answer.stdout)
    if not answer.ok or version is None:
        return Program(found, why=f"{found} does not say its version")
    if Version(version[1]) < Version(OLDEST):
        return Program(found, version[1], f"uv {version[1]} is older than {OLDEST}")
    return Program(found, version[1])
