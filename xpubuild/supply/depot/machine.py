"""What of this machine decides a build: content of compilers, ocloc and what they load, headers, libraries.

A compiler is more than the program that is started: GCC starts cc1plus, as and ld, links start files and
libgcc, and all of them load libraries. A compiler can be replaced behind the same path and version, so the
content counts. Of headers and libraries of the system, which CMake enables features by, names, sizes
and versions count.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from xpubuild.artifacts.elf import is_elf
from xpubuild.artifacts.linkage import system_libraries
from xpubuild.engine.answers import Answers
from xpubuild.engine.environment import base_environment
from xpubuild.engine.fingerprint import digest
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen
from xpubuild.machine.ocloc import find_ocloc

#: Of a hash, and the seconds in which the compilers of oneAPI (2 GB) are hashed on any disk.
_DIGITS, _HASHED_S = 64, 1800.0
_LINKABLE = (".so", ".a")
_LOADER_CACHE = "/etc/ld.so.cache"

_PROGRAMS = ("cc1", "cc1plus", "collect2", "lto-wrapper", "lto1", "as", "ld", "ar")
# What GCC links or loads by itself.
_LINKED = (
    "crt1.o", "Scrt1.o", "crti.o", "crtn.o", "crtbegin.o", "crtbeginS.o", "crtend.o", "crtendS.o",
    "libgcc.a", "libgcc_s.so.1", "libgcc_eh.a", "libstdc++.so", "libstdc++.a", "libgomp.so", "libgomp.a",
    "libc.so.6", "libc_nonshared.a", "libm.so.6", "liblto_plugin.so",
)  # fmt: skip
_SEARCH_DIRS = re.compile(r"^(programs|libraries): =?(.*)$", re.MULTILINE)
_INCLUDES = re.compile(r"#include <\.\.\.> search starts here:\n(.*?)End of search list", re.DOTALL)
_LOADED = re.compile(r"^\s+(\S+) => (/\S+) \(0x", re.MULTILINE)
# What ocloc opens while it runs (intel/compute-runtime and intel-graphics-compiler), by ldconfig's names.
_OPENED = re.compile(r"lib(?:ocloc|igc|igdfcl|iga64|opencl-clang)\.so[.\d]*")
# PyTorch's CMake runs programs to learn what the CPU can do (cmake/Modules/FindAVX.cmake).
_CPU = re.compile(r"^(?:sse4_\d|avx\w*|fma|f16c|bmi\d|amx_\w+|sve\w*|asimd\w*)$")
_SYSTEM = frozenset({"/", "/usr", "/usr/local"})


class Contents:
    """What files contain and what programs say of themselves, remembered in a folder of the cache.

    No program can set the time of change (ctime) of a file, so a file with the same one has the same content.
    """

    def __init__(self, memory: Path) -> None:
        self._answers = Answers(memory)

    def sha256(self, paths: Iterable[Path]) -> dict[Path, str]:
        """Return the sha256 (hex) of the files that paths lead to; what cannot be read is left out.

        Raises:
            ToolchainError: sha256sum is missing.
        """
        real = {path: os.path.realpath(path) for path in paths}
        files = sorted({file for file in real.values() if os.access(file, os.R_OK) and Path(file).is_file()})
        if not files:
            return {}
        answer = self._answers.probe(
            ["sha256sum", "--zero", "--", *files], env={"PATH": base_environment()["PATH"]},
            decides=lambda *_: files, deadline_s=_HASHED_S,
        )  # fmt: skip
        # Each is HASH, two blanks, NAME.
        hashes = {line[_DIGITS + 2 :]: line[:_DIGITS] for line in answer.stdout.split("\0")}
        return {path: hashes[file] for path, file in real.items() if file in hashes}

    def said(self, argv: Sequence[str], environment: Mapping[str, str]) -> str:
        """Return what a program writes to both of its outputs, "" where it fails.

        Remembered while the program, the loader's cache and the environment are the same. Scripts are asked
        each time: what they start may have changed.

        Raises:
            ToolchainError: it cannot be started.
        """
        result = self._answers.probe(
            argv, env=environment, decides=lambda _, program: [_LOADER_CACHE] if is_elf(program) else None
        )
        return f"{result.stdout}\n{result.stderr}" if result.ok else ""


@frozen
class Places:
    """Where compilers and CMake look: folders of headers and of libraries, prefixes, and those of PATH."""

    includes: tuple[Path, ...]
    libraries: tuple[Path, ...]
    prefixes: tuple[Path, ...]
    programs: tuple[Path, ...]


@frozen
class Toolchain:
    """What a build is given: its whole environment, its compilers, and the folders of oneAPI's components.

    ``search_path`` is the PATH of the user's that every build gets.
    ``python`` is the interpreter, "" where the environment has its own. ``ocloc`` says whether kernels are
    compiled ahead of time.
    """

    cc: str
    cxx: str
    environment: Mapping[str, str]
    search_path: str = ""
    python: str = ""
    oneapi: Mapping[str, Path] = field(default_factory=dict)
    ocloc: bool = False


def machine_inputs(tools: Toolchain, contents: Contents) -> dict[str, Any]:
    """Return what of this machine decides a build with these tools, as part of a build identity.

    Raises:
        ToolchainError: a compiler or the interpreter cannot be started.
    """
    search = _search(tools, contents)
    found: dict[str, Any] = {
        "platform": f"{platform.machine()} {' '.join(platform.libc_ver())}".strip(),
        "cpu": _cpu(),
        "compilers": _compilers(tools, search, contents),
    }
    if tools.python:
        found["python"] = _interpreter(tools, contents)
    if tools.oneapi:
        found["oneapi"] = {name: _component(place, contents) for name, place in tools.oneapi.items()}
    if tools.ocloc:
        found["ocloc"] = _ocloc(tools.environment, contents)
    return found


def system_inputs(tools: Toolchain, contents: Contents) -> dict[str, Any]:
    """Return names and sizes of all of the system, for builds of which nobody knows what they read."""
    return {
        "headers": _named((folder, headers(folder)) for folder in _includes(tools, contents)),
        "libraries": _named((folder, libraries(folder)) for folder in _search(tools, contents)["libraries"]),
        "prefixes": _prefixes(tools.search_path),
    }


def search_places(tools: Toolchain, contents: Contents) -> Places:
    """Return where compilers and CMake look for headers, libraries and programs."""
    environment = tools.environment
    programs = [Path(item) for item in environment.get("PATH", "").split(os.pathsep) if item.startswith("/")]
    named = [Path(item) for item in environment.get("CMAKE_PREFIX_PATH", "").split(os.pathsep) if item]
    above = (path.parent for path in programs)
    prefixes = tuple(dict.fromkeys((*named, *above, *map(Path, sorted(_SYSTEM)))))
    libraries = [*_search(tools, contents)["libraries"], *(path / "lib" for path in prefixes)]
    includes = [*_includes(tools, contents), *(path / "include" for path in prefixes)]
    return Places(tuple(dict.fromkeys(includes)), tuple(dict.fromkeys(libraries)), prefixes, tuple(programs))


def _named(pairs: Iterable[tuple[Path, str]]) -> dict[str, str]:
    return {str(path): found for path, found in pairs if found}


def _cpu() -> list[str]:
    """Return the extensions of the CPU that compilers have switches for."""
    try:
        text = Path("/proc/cpuinfo").read_text("ascii", "replace")
    except OSError:
        return []
    lines = (line.partition(":")[2] for line in text.splitlines() if line.startswith(("flags", "Features")))
    return sorted(word for word in next(lines, "").split() if _CPU.match(word))


def _search(tools: Toolchain, contents: Contents) -> dict[str, tuple[Path, ...]]:
    """Return the folders in which a compiler looks for programs and libraries."""
    said = contents.said([tools.cxx, "-print-search-dirs"], tools.environment)
    found: dict[str, tuple[Path, ...]] = {"programs": (), "libraries": ()}
    for name, folders in _SEARCH_DIRS.findall(said):
        real = (Path(folder).resolve() for folder in folders.split(":") if folder)
        found[name] = tuple(dict.fromkeys(path for path in real if path.is_dir()))
    return found


def _includes(tools: Toolchain, contents: Contents) -> Iterator[Path]:
    """Yield the folders in which a compiler looks for headers, none that is inside of another."""
    argv = [tools.cxx, "-E", "-v", "-x", "c++", "/dev/null"]
    match = _INCLUDES.search(contents.said(argv, tools.environment))
    folders = {Path(line.strip()).resolve() for line in match[1].splitlines()} if match else set()
    yield from sorted(path for path in folders if not folders.intersection(path.parents))


def _compilers(tools: Toolchain, search: Mapping[str, Sequence[Path]], contents: Contents) -> dict[str, str]:
    """Return by name the content of the parts of compilers, with the libraries that they load."""
    path = tools.environment.get("PATH", "")
    programs = {"cc": Path(tools.cc), "cxx": Path(tools.cxx)}
    for name in _PROGRAMS:
        place = _first(name, search["programs"]) or shutil.which(name, path=path)
        if place:
            programs[name] = Path(place)
    linked = {name: place for name in _LINKED if (place := _first(name, search["libraries"]))}
    return _contents({**programs, **linked}, programs.values(), tools.environment, contents)


def _contents(
    files: Mapping[str, Path], programs: Iterable[Path], environment: Mapping[str, str], contents: Contents
) -> dict[str, str]:
    every = dict(files)
    for program in programs:
        every = {**_loaded(program, environment, contents), **every}
    hashes = contents.sha256(every.values())
    return {name: hashes[path] for name, path in sorted(every.items()) if path in hashes}


def _first(name: str, folders: Iterable[Path]) -> Path | None:
    return next((path for folder in folders if (path := folder / name).is_file()), None)


def _loaded(program: Path, environment: Mapping[str, str], contents: Contents) -> dict[str, Path]:
    """Return the libraries that a program loads when it starts, as the loader says (ld.so(8))."""
    try:
        if not is_elf(program):
            return {}
        shown = contents.said([str(program)], {**environment, "LD_TRACE_LOADED_OBJECTS": "1"})
    except (OSError, ToolchainError):
        return {}
    return {name: Path(path) for name, path in _LOADED.findall(shown)}


def _interpreter(tools: Toolchain, contents: Contents) -> str:
    question = "import sys, sysconfig as s; print(sys.version.split()[0], s.get_config_var('SOABI'))"
    return contents.said([tools.python, "-I", "-c", question], tools.environment).strip()


def _prefixes(search_path: str) -> dict[str, str]:
    """Return what CMake finds beside the folders of PATH: it takes their parents for prefixes."""
    found: dict[str, str] = {}
    for folder in filter(None, search_path.split(os.pathsep)):
        prefix = Path(folder).parent
        if str(prefix) in _SYSTEM or str(prefix) in found:
            continue
        parts = [headers(prefix / "include"), *(libraries(prefix / name) for name in ("lib", "lib64"))]
        if any(parts):
            found[str(prefix)] = " ".join(filter(None, parts))
    return found


def _component(place: Path, contents: Contents) -> dict[str, str]:
    """Return the content of the programs of one of oneAPI's components, and a listing of the rest."""
    programs = [path for name in ("bin", "bin/compiler") for path in (place / name).glob("*")]
    hashes = {f"{path.parent.name}/{path.name}": found for path, found in contents.sha256(programs).items()}
    return {**hashes, **_named((Path(name), headers(place / name)) for name in ("include", "lib", "opt"))}


def _ocloc(environment: Mapping[str, str], contents: Contents) -> dict[str, str]:
    """Return the content of ocloc and of the graphics compiler that it opens."""
    program = find_ocloc(environment)
    if program is None:
        return {}
    opened: dict[str, Path] = {}
    for folder in environment.get("LD_LIBRARY_PATH", "").split(":"):
        for path in sorted(Path(folder).glob("lib*.so*")) if folder.startswith("/") else ():
            if _OPENED.fullmatch(path.name):
                opened.setdefault(path.name, path)
    for name, paths in system_libraries().items():
        if _OPENED.fullmatch(name):
            opened.setdefault(name, Path(paths[0]))
    return _contents({"ocloc": Path(program), **opened}, [Path(program)], environment, contents)


def headers(folder: Path) -> str:
    """Return a digest of the names and sizes of all files below a folder; "" where there are none."""
    found = sorted(_below(os.fspath(folder), ""))
    return digest(found) if found else ""


def _below(folder: str, prefix: str) -> Iterator[list[object]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = f"{prefix}{entry.name}"
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _below(entry.path, f"{name}/")
                else:
                    yield [name, entry.stat().st_size]


def libraries(folder: Path) -> str:
    """Return a digest of what a linker and CMake find in a folder of libraries; "" where that is nothing.

    A shared library counts with the name that its link leads to, which has its version.
    """
    found: list[list[object]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name.endswith(_LINKABLE):
                    link = Path(entry.path).readlink().name if entry.is_symlink() else ""
                    found.append([entry.name, link or entry.stat().st_size])
    with contextlib.suppress(OSError):
        found += [["cmake", path.name] for path in (folder / "cmake").iterdir()]
    return digest(sorted(found, key=str)) if found else ""
