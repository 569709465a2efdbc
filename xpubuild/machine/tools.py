"""Compilers and build tools on PATH, with the versions that they report themselves."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from xpubuild.engine.answers import FRESH, Answers, Decides, says_itself
from xpubuild.engine.environment import usable_path
from xpubuild.engine.process import QueryResult
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import UNKNOWN

_DEADLINE_S = 10.0
#: Names that are looked for; icx and icpx are found where the environment has oneAPI's compiler on its PATH.
COMPILERS = ("gcc", "g++", "clang", "clang++", "icx", "icpx")
TOOLS = ("cmake", "ninja")

_TARGET = re.compile(r"^Target: (\S+)", re.MULTILINE)
# First match wins: Intel's and other vendors' banners also hold the word clang.
_KINDS = (
    ("icx", re.compile(r"Intel\(R\) oneAPI DPC\+\+/C\+\+ Compiler (\d+(?:\.\d+)+)")),
    ("clang", re.compile(r"clang version (\d+(?:\.\d+)+)")),
    ("gcc", re.compile(r"^gcc version (\d+(?:\.\d+)*)", re.MULTILINE)),
)
_VERSION = re.compile(r"\d+(?:\.\d+)+")


@frozen
class CompilerFacts:
    """``kind`` is gcc, clang or icx by what the program says, not by its name; ``target`` is its triple."""

    name: str
    path: str
    kind: str = UNKNOWN
    version: str = UNKNOWN
    target: str = UNKNOWN


@frozen
class ToolFacts:
    """A program and its version."""

    name: str
    path: str
    version: str = UNKNOWN


def locate(names: tuple[str, ...], search_path: str) -> dict[str, str]:
    """Return name -> path of those that are on ``search_path``."""
    search_path, _ = usable_path(search_path)
    found = {name: shutil.which(name, path=search_path) for name in names}
    return {name: path for name, path in found.items() if path}


def probe_compiler(path: str, environment: Mapping[str, str], answers: Answers = FRESH) -> CompilerFacts:
    """Return what a compiler says of itself; never raises.

    ``-v`` alone compiles nothing: GCC, clang and icx print version and target with it.
    """
    text = _output(
        [path, "-v"], environment, answers,
        lambda result, program: says_itself(program, parse_compiler(_all_of(result))[1:]),
    )  # fmt: skip
    kind, version, target = parse_compiler(text)
    return CompilerFacts(Path(path).name, path, kind, version, target)


def probe_tool(path: str, environment: Mapping[str, str], answers: Answers = FRESH) -> ToolFacts:
    """Return a program's version as ``--version`` prints it; never raises."""
    text = _output(
        [path, "--version"], environment, answers,
        lambda result, program: says_itself(program, [_version(_all_of(result))]),
    )  # fmt: skip
    return ToolFacts(Path(path).name, path, _version(text))


def _version(text: str) -> str:
    match = _VERSION.search(text)
    return match[0] if match else UNKNOWN


def parse_compiler(text: str) -> tuple[str, str, str]:
    """Return kind, version and target from the output of ``-v`` or ``--version``."""
    target = _TARGET.search(text)
    for kind, pattern in _KINDS:
        if match := pattern.search(text):
            return kind, match[1], target[1] if target else UNKNOWN
    return UNKNOWN, UNKNOWN, target[1] if target else UNKNOWN


def _output(argv: list[str], environment: Mapping[str, str], answers: Answers, decides: Decides) -> str:
    try:
        result = answers.probe(argv, env=environment, decides=decides, deadline_s=_DEADLINE_S)
    except (XpuBuildError, OSError):
        return ""
    return _all_of(result) if result.ok else ""


def _all_of(result: QueryResult) -> str:
    return f"{result.stdout}\n{result.stderr}"
