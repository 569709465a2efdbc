"""Reads how a configured build will compile for SYCL: ``build.ninja`` and the scripts that it runs.

torch-xpu-ops compiles each SYCL source by a CMake script beside the object (``NAME.cpp.o.Release.cmake``,
made from its cmake/Modules/FindSYCL/run_sycl.cmake) and links the device code of each library by one command
with ``-fsycl-link``, which has the AOT targets. Neither is in ``compile_commands.json``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xpubuild.frozen import frozen

_SCRIPT = re.compile(r" -P \"?([^\"]{1,4000}?\.o(?:\.[A-Za-z]{1,40})?\.cmake)(?=\"|\s|$)")
_TARGET = re.compile(r"/CMakeFiles/([^/\s\"]{1,200})\.dir/")
_SET = re.compile(r"^set\((\w+)(?: +(.*?))?\)(?: #.*)?$")
# In a double-quoted word the blanks between the options of ocloc are escaped once more.
_DEVICE = re.compile(r"-device[\\ ]+(?!-)([^\\\s\"']{1,400})")
_STANDARD = re.compile(r"-std=(?:c|gnu)\+\+(\w{2,3})\b")
_ABI = re.compile(r"-D_GLIBCXX_USE_CXX11_ABI=(\d)")
_SYCL_TARGETS = re.compile(r"-fsycl-targets=([\w,+.-]{1,200})")
_HOME = re.compile(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", re.MULTILINE)
#: What rules of the gate see of a build without any SYCL command.
NO_SYCL = "no SYCL commands"
_PREVIEW = ("-D__INTEL_PREVIEW_BREAKING_CHANGES", "-fpreview-breaking-changes")


@frozen
class SyclGroup:
    """The SYCL sources of one CMake target, which share their options and are linked for the device together.

    ``aot`` are the GPUs that device code is compiled for beforehand, empty for none.
    """

    name: str
    sources: tuple[str, ...]
    aot: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    compiler: str = ""
    host_compiler: str = ""
    host_standard: str | None = None
    device_standard: str | None = None
    cxx11_abi: int | None = None
    preview: tuple[str, ...] = ()

    def line(self) -> str:
        """Return the group as rules of the gate see it."""
        return f"{self.name}: -device {','.join(self.aot) or 'nothing'}"


@dataclass
class _Found:
    """What was read of one target so far; ``options`` are the sets of options that its scripts have."""

    sources: list[str] = field(default_factory=list)
    device: str = ""
    host: str = ""
    link: str = ""
    compiler: str = ""
    host_compiler: str = ""


def read_sycl_groups(build: Path) -> tuple[SyclGroup, ...]:
    """Return the SYCL sources of a build folder by target, largest first; empty where there are none."""
    found: dict[str, _Found] = {}
    for line in _lines(build / "build.ninja"):
        target = _TARGET.search(line)
        if target is None:
            continue
        if "-fsycl-link" in line:
            found.setdefault(target[1], _Found()).link = line
        elif script := _SCRIPT.search(line):
            path = Path(_plain(script[1]))
            _add_script(found.setdefault(target[1], _Found()), path if path.is_absolute() else build / path)
    groups = [_group(name, item) for name, item in found.items() if item.sources]
    return tuple(sorted(groups, key=lambda group: (-len(group.sources), group.name)))


def home_of(build: Path) -> str | None:
    """Return the source folder that a build folder was configured for."""
    try:
        found = _HOME.search((build / "CMakeCache.txt").read_text("utf-8", "replace"))
    except OSError:
        return None
    return os.path.realpath(found[1].strip()) if found else None


def _lines(path: Path) -> Iterator[str]:
    """Yield the commands of a build.ninja that may have to do with SYCL."""
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            for line in stream:
                if line.startswith("  COMMAND = ") and ("-fsycl-link" in line or ".cmake" in line):
                    yield line.rstrip("\n")
    except OSError:
        return


def _plain(text: str) -> str:
    """Undo ninja's escapes."""
    return re.sub(r"\$(.)", r"\1", text)


def _add_script(found: _Found, path: Path) -> None:
    values = _settings(path)
    source = values.get("source_file", "").strip('"')
    if not source:
        return
    found.sources.append(source)
    found.compiler = values.get("SYCL_executable", "").strip('"') or found.compiler
    found.host_compiler = found.host_compiler or values.get("SYCL_host_compiler", "").strip('"')
    definitions = values.get("SYCL_compile_definitions", "").removeprefix("[==[").removesuffix("]==]")
    defined = " ".join(f"-D{item}" for item in definitions.split(";") if item)
    options = values.get("SYCL_flags") or values.get("SYCL_compile_flags") or ""
    found.device = found.device or f"{options} {defined}"
    found.host = found.host or values.get("CMAKE_HOST_FLAGS", "")


def _settings(path: Path) -> dict[str, str]:
    """Return the variables that a script sets, each as it is set first."""
    values: dict[str, str] = {}
    try:
        text = path.read_text("utf-8", "replace")
    except OSError:
        return values
    for line in text.split("\n"):
        match = _SET.match(line)
        if match:
            values.setdefault(match[1], (match[2] or "").strip())
    return values


def _group(name: str, found: _Found) -> SyclGroup:
    device, link = found.device, _plain(found.link)
    both = f"{device} {link}"
    abi = _ABI.search(device) or _ABI.search(found.host)
    return SyclGroup(
        name=name,
        sources=tuple(sorted(found.sources)),
        aot=_words(_DEVICE.findall(both)),
        formats=_words(_SYCL_TARGETS.findall(device) or _SYCL_TARGETS.findall(link)),
        compiler=found.compiler,
        host_compiler=found.host_compiler,
        host_standard=_last(_STANDARD.findall(found.host)),
        device_standard=_last(_STANDARD.findall(device)),
        cxx11_abi=int(abi[1]) if abi else None,
        preview=tuple(option for option in _PREVIEW if option in both),
    )


def _words(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for text in texts for word in text.split(",") if word))


def _last(values: list[str]) -> str | None:
    return values[-1] if values else None
