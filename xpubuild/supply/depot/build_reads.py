"""What a build by CMake and ninja read outside of its workspace, and what it looked for there.

A wheel that is kept with this is taken wherever both hold: ``read`` are files with their sha256, ``searched``
are places where something was looked for, with what was there or ``NOTFOUND``. More places are listed than
CMake looks at, so another result may be a build too many, and never a wheel too many. Where a name cannot be
known (a variable of a search that is not in the cache), nothing is returned, and the whole system counts.

Sources: ``ninja -t deps``; cmake-language(7); find_library, find_path, find_package of cmake-commands(7).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from xpubuild.artifacts.cmake_build import read_cache
from xpubuild.engine.fingerprint import file_sha256
from xpubuild.engine.process import probe
from xpubuild.errors import XpuBuildError
from xpubuild.frozen import frozen
from xpubuild.supply.depot.machine import Contents, Places
from xpubuild.supply.depot.record import Record

NOTFOUND = "NOTFOUND"
_NAMES = (
    r"\b(find_library|find_path|find_file|find_program|find_package|pkg_check_modules|pkg_search_module"
    r"|check_library_exists)\s*\("
)
_CALL, _SEARCH = re.compile(_NAMES, re.IGNORECASE), re.compile(_NAMES + r"([^()]*)\)", re.IGNORECASE)
_HEADER = re.compile(r"[\w./+-]+\.(?:h|hh|hpp|hxx|inc)\b|(?<=[<])[\w./+-]+(?=>)")
_INCLUDED_IF = re.compile(rb"__has_include(?:_next)?\s*\(\s*[<\"]([^>\"\n]{1,200})[>\"]")
_VARIABLE = re.compile(r"\$(?:\{([\w.-]+)\}|ENV\{(\w+)\})")
_INCLUDE = re.compile(r"(?:-I|-isystem )\s*(/[^\s\"']+)")
_LINKED = re.compile(r"(?:^|\s)(/[^\s\"':]+\.(?:so|a|o)[.\d]*)(?=\s|$)")
_WANTED = re.compile(r"(?:^|\s)-l([\w+.-]+)")
#: Modules of CMake itself that ask the compiler or the interpreter, which are in the key.
_OF_TOOLS = re.compile(
    r"/Modules/(?:CMake|Check|Compiler/|Platform/|Internal/|FindPackage|FindPkgConfig|FindThreads|FindPython)"
)
#: What a script may do that reads or looks for files without a trace.
_UNKNOWN = re.compile(
    r"\b(?:execute_process|try_compile|try_run|pkg_get_variable)\s*\("
    r"|\b(?:EXISTS|IS_DIRECTORY)\s+\"?(?!\$\{(?:CMAKE|PROJECT)_\w*(?:SOURCE|BINARY|LIST)_DIR\})",
    re.IGNORECASE,
)


@frozen
class Reads:
    """File -> sha256, and place -> what is there (the real path) or ``NOTFOUND``."""

    read: Mapping[str, str]
    searched: Mapping[str, str]


def unlike(record: Record, contents: Contents) -> str:
    """Return the first file or place that is not here what it was for a build; "" where all hold."""
    if not record.read:
        return "its record does not say what it read"
    for place, found in record.searched.items():
        if _there(place) != found:
            return place
    here = contents.sha256(map(Path, record.read))
    return next((file for file, sha256 in record.read.items() if here.get(Path(file)) != sha256), "")


def build_reads(
    build: Path, inside: Sequence[Path], places: Places, ninja: str, environment: Mapping[str, str]
) -> Reads | None:
    """Return what the build in a folder read and looked for outside of some folders; None where unknown."""
    folders = [path.parent for path in build.rglob("CMakeCache.txt")]
    own = tuple(f"{os.path.realpath(folder)}/" for folder in inside)
    read: set[str] = set()
    names: set[str] = set()
    try:
        for folder in folders:
            manifest = (folder / "build.ninja").read_text("utf-8", "replace").replace("$\n", " ")
            deps = _deps(folder, manifest, ninja, environment)
            scripts = _scripts(folder, manifest)
            cache = {**environment, **read_cache(folder)}
            read |= deps | scripts | set(_LINKED.findall(manifest))
            for script in scripts:
                if not _OF_TOOLS.search(script) and f"{folder}/" not in script:
                    names |= set(_searched(Path(script).read_text("utf-8", "replace"), cache, places))
            headers = [Path(item) for item in _INCLUDE.findall(manifest)] + list(places.includes)
            names |= set(_shadows(deps, headers))
            for word in _WANTED.findall(manifest):
                found = list(_libraries(word, places.libraries))
                names |= set(found)
                read |= {path for path in found if Path(path).is_file()}
    except (OSError, _UnknownError, XpuBuildError):
        return None
    outside = sorted(path for path in read if not f"{os.path.realpath(path)}".startswith(own))
    files = [path for path in outside if Path(path).is_file()]
    searched = {place: _there(place) for place in sorted(names) if not place.startswith(own)}
    return Reads({path: file_sha256(Path(path)) for path in files}, searched) if folders else None


class _UnknownError(Exception):
    """Something was read or looked for that nothing names."""


def _there(place: str) -> str:
    # A folder that this user may not enter has nothing for this user's compilers either.
    return os.path.realpath(place) if os.access(place, os.F_OK) else NOTFOUND


def _deps(folder: Path, manifest: str, ninja: str, environment: Mapping[str, str]) -> set[str]:
    """Return the headers and sources of every object; each object that is compiled must have them."""
    answer = probe((ninja, "-C", str(folder), "-t", "deps"), env=environment)
    known: set[str] = set()
    found: set[str] = set()
    for line in answer.stdout.splitlines():
        if line.startswith("    "):
            found.add(os.path.normpath(folder / line.strip()))
        elif line.endswith("(VALID)"):
            known.add(line.partition(": #deps")[0])
    compiled = re.findall(r"^build (\S+): \w+_COMPILER__", manifest, re.MULTILINE)
    custom = re.findall(r"^build ([^\n:|]+).*: CUSTOM_COMMAND", manifest, re.MULTILINE)
    own = any(not item.split()[0].endswith(".util") for item in custom)
    if not answer.ok or set(compiled) - known or own:
        raise _UnknownError
    return found


def _scripts(folder: Path, manifest: str) -> set[str]:
    """Return what CMake read: the inputs of the command that makes build.ninja again."""
    match = re.search(r"^build build\.ninja[^\n]*: RERUN_CMAKE \|([^\n]*)", manifest, re.MULTILINE)
    if match is None:
        raise _UnknownError
    words = re.findall(r"(?:\$.|[^\s$])+", match[1])
    return {os.path.normpath(folder / re.sub(r"\$(.)", r"\1", word)) for word in words}


def _searched(text: str, cache: Mapping[str, str], places: Places) -> Iterator[str]:
    """Yield the places where a script of CMake has things looked for."""
    text = re.sub(r"#[^\n]*", "", text)
    calls = _SEARCH.findall(text)
    if _UNKNOWN.search(text) or len(calls) != len(_CALL.findall(text)):
        raise _UnknownError
    for name in _HEADER.findall(text):
        yield from (f"{folder}/{name}" for folder in places.includes)

    def value(match: re.Match[str]) -> str:
        found = cache.get(match[1] or match[2])
        if found is None:
            raise _UnknownError
        return found

    for call, arguments in calls:
        words = re.split(r"[\s;\"]+", _VARIABLE.sub(value, arguments).strip(' "\n'))
        own = [Path(word) for word in words if word.startswith("/")]
        _, _, suffixes = " ".join(words).partition("PATH_SUFFIXES ")
        below = ["", *suffixes.split()]
        for word in words:
            yield from _candidates(call.lower(), word, own, below, places)


def _candidates(
    call: str, word: str, own: Sequence[Path], below: Sequence[str], places: Places
) -> Iterator[str]:
    prefixes = (*own, *places.prefixes)
    if call in ("find_library", "check_library_exists"):
        folders = [*own, *(path / "lib" for path in own), *places.libraries]
        yield from _libraries(word, [folder / end for folder in folders for end in below])
    elif call in ("find_path", "find_file"):
        folders = [*prefixes, *(path / "include" for path in own), *places.includes]
        yield from (os.path.normpath(folder / end / word) for folder in folders for end in below)
    elif call == "find_program":
        folders = [*own, *(path / "bin" for path in prefixes), *places.programs]
        yield from (f"{folder}/{word}" for folder in folders)
    else:
        homes = [*places.libraries, *(path / "share" for path in prefixes)]
        name = re.split("[<>=]", word)[0]
        if call == "find_package":
            yield from (f"{home}/cmake/{item}" for home in homes for item in (name, name.lower()))
            yield from (f"{path / 'share'}/{item}" for path in prefixes for item in (name, name.lower()))
        else:
            yield from (f"{home}/pkgconfig/{name}.pc" for home in homes)


def _libraries(name: str, folders: Iterable[Path]) -> Iterator[str]:
    for folder in folders:
        yield from (os.path.normpath(folder / f"lib{name}{end}") for end in (".so", ".a"))


def _shadows(headers: Iterable[str], folders: Sequence[Path]) -> Iterator[str]:
    """Yield where a file of the name of a header that was read, or is asked for, would be read instead."""
    places = [os.path.normpath(folder) for folder in dict.fromkeys(folders)]
    names: set[str] = set()
    for header in headers:
        names |= {header.removeprefix(f"{place}/") for place in places if header.startswith(f"{place}/")}
        names.add(Path(header).name)
        names |= {name.decode("utf-8", "replace") for name in _INCLUDED_IF.findall(Path(header).read_bytes())}
    yield from (f"{place}/{name}" for name in names for place in places)
