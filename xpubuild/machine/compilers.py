"""Chooses the host compilers of a build and checks them against the recipe.

They must be GCC if a recipe says so: with any other host compiler, torch-xpu-ops does not build its kernels
and reports no error, and the import then fails on a missing symbol (seen with icpx on the 2.12 line).
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from packaging.specifiers import SpecifierSet

from xpubuild.engine.answers import FRESH, Answers, Decides, says_itself
from xpubuild.engine.environment import base_environment, usable_path
from xpubuild.engine.process import QueryResult
from xpubuild.errors import ToolchainError, UnsatisfiableError, XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.machine.readers import UNKNOWN
from xpubuild.machine.system import OsFacts, install_commands, package_names

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


_DEFAULTS = {"CC": "gcc", "CXX": "g++"}
# The C compiler that belongs to a C++ compiler, by the start of its name: g++-13 -> gcc-13.
_C_OF_CXX = (("clang++", "clang"), ("icpx", "icx"), ("g++", "gcc"), ("c++", "cc"))
_VERSIONED = re.compile(r"g\+\+-\d+")


@frozen
class HostCompilers:
    """The C and C++ compiler of a build, with full paths."""

    cc: CompilerFacts
    cxx: CompilerFacts

    def env(self) -> dict[str, str]:
        """Return the variables that CMake and setuptools read."""
        return {"CC": self.cc.path, "CXX": self.cxx.path}

    def relevant(self) -> dict[str, str]:
        """Return what a fingerprint has to hold: a compiler can be upgraded behind the same path."""
        return {
            name: f"{facts.kind} {facts.version} {facts.target}"
            for name, facts in (("cc", self.cc), ("cxx", self.cxx))
        }


def choose_compilers(
    needs_gcc: str | None,
    *,
    caller: Mapping[str, str],
    system: OsFacts,
    known: Iterable[CompilerFacts] = (),
) -> HostCompilers:
    """Return the compilers that the caller's CC and CXX name, else gcc and g++ of the caller's PATH.

    ``needs_gcc`` is the recipe's version specifier; without one, compilers other than GCC are allowed too.
    Those that are ``known`` from the host report are not asked again.

    Raises:
        ToolchainError: one is missing, or does not say what it is.
        UnsatisfiableError: it is not GCC, or not of the version that the recipe needs.
    """
    environment = base_environment(caller)
    names = _names(caller, environment["PATH"])
    paths = {
        variable: _located(variable, name, variable in caller, environment, system)
        for variable, name in names.items()
    }
    answers = {facts.path: facts for facts in known if facts.version != UNKNOWN}
    found = {
        variable: answers.get(path) or _probe(variable, path, environment) for variable, path in paths.items()
    }
    for variable, facts in found.items() if needs_gcc is not None else ():
        _require_gcc(variable, facts, needs_gcc or "", environment["PATH"], system)
    return HostCompilers(cc=found["CC"], cxx=found["CXX"])


def _names(caller: Mapping[str, str], search_path: str) -> dict[str, str]:
    """Return CC and CXX as the caller set them; of one alone the other is derived."""
    names = {variable: caller.get(variable, "").strip() for variable in _DEFAULTS}
    if names["CXX"] and not names["CC"]:
        names["CC"] = _partner(names["CXX"], _C_OF_CXX, search_path)
    elif names["CC"] and not names["CXX"]:
        names["CXX"] = _partner(names["CC"], tuple((c, cxx) for cxx, c in _C_OF_CXX), search_path)
    return {variable: name or _DEFAULTS[variable] for variable, name in names.items()}


def _partner(name: str, pairs: tuple[tuple[str, str], ...], search_path: str) -> str:
    path = Path(name)
    for mine, other in pairs:
        # Cross and versioned names keep their ends: x86_64-linux-gnu-g++-13.
        head, found, tail = path.name.rpartition(mine)
        if found and (not tail or tail.startswith("-")) and (not head or head.endswith("-")):
            candidate = str(path.with_name(head + other + tail))
            return candidate if shutil.which(candidate, path=search_path) else ""
    return ""


def _located(variable: str, name: str, given: bool, environment: Mapping[str, str], system: OsFacts) -> str:
    path = shutil.which(name, path=environment["PATH"])
    if path is None:
        raise ToolchainError(
            f"the compiler '{name}' was not found",
            why=f"it is set in the environment variable {variable}"
            if given
            else "no C and C++ compiler is on PATH",
            fix=f"correct or unset {variable}: it must be the path or name of one program, without options"
            if given
            else f"install {package_names('compiler', system)}",
            commands=(f"unset {variable}",) if given else install_commands("compiler", system),
            evidence={"PATH": environment["PATH"]},
        )
    return str(Path(path).absolute())


def _probe(variable: str, path: str, environment: Mapping[str, str]) -> CompilerFacts:
    facts = probe_compiler(path, environment)
    if facts.version == UNKNOWN:
        raise ToolchainError(
            f"{path} does not report which compiler it is",
            why=f"'{path} -v' did not print a version of GCC, clang or icx",
            fix=f"set {variable} to a compiler that works",
            commands=(f"'{path}' -v",),
        )
    return facts


def _require_gcc(variable: str, facts: CompilerFacts, needs: str, search_path: str, system: OsFacts) -> None:
    wanted = f"GCC {needs}".strip()
    evidence = {"variable": variable, "found": f"{facts.kind} {facts.version}", "needs": wanted}
    if facts.kind != "gcc":
        raise UnsatisfiableError(
            f"{facts.path} is {facts.kind} {facts.version}, but the build needs {wanted}",
            why=(
                "PyTorch does not build its XPU kernels with any other host compiler than GCC, and "
                "reports no error"
            ),
            fix=f"set CC and CXX to GCC, or unset them; to install GCC: {package_names('compiler', system)}",
            commands=("unset CC CXX", *install_commands("compiler", system)),
            evidence=evidence,
        )
    if SpecifierSet(needs).contains(facts.version):
        return
    others = other_versions(needs, search_path)
    raise UnsatisfiableError(
        f"{facts.path} is GCC {facts.version}, but the recipe needs {wanted}",
        why="only these versions can compile its sources",
        fix="use the GCC of this machine with the right version"
        if others
        else (
            f"install GCC of the right version ({package_names('compiler', system)}, or a versioned "
            "package) and set CC and CXX to it"
        ),
        commands=others or install_commands("compiler", system),
        evidence=evidence,
    )


def other_versions(needs: str, search_path: str) -> tuple[str, ...]:
    """Return the line that selects an installed g++-N which would fit, newest first."""
    names = {
        entry.name
        for folder in search_path.split(":")
        if Path(folder).is_dir()
        for entry in Path(folder).glob("g++-*")
        if _VERSIONED.fullmatch(entry.name)
    }
    for name in sorted(names, key=lambda item: -int(item.rpartition("-")[2])):
        major = name.rpartition("-")[2]
        # A name tells the major version only; .99 stands for whatever minor release it is.
        if SpecifierSet(needs).contains(f"{major}.99"):
            return (f"export CC=gcc-{major} CXX=g++-{major}",)
    return ()
