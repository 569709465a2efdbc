"""What CMake prints and writes: its messages, the cache, SYCL commands, and the switches that it decided.

torch-xpu-ops compiles each SYCL source by a CMake script beside the object (``NAME.cpp.o.Release.cmake``,
made from its cmake/Modules/FindSYCL/run_sycl.cmake) and links the device code of each library by one command
with ``-fsycl-link``, which has the AOT targets. Neither is in ``compile_commands.json``.

CMake wraps its messages over indented lines, and pip indents them again: they are joined here.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from xpubuild.artifacts.gate_rules import OFF
from xpubuild.frozen import frozen

_HEAD = re.compile(r"(\s{0,8})CMake (?:Warning|Error|Deprecation Warning)\b")
_LONGEST_MESSAGE = 40
_LONGEST_LINE = 8192
# Polls that a message may wait for its end; its lines come within milliseconds of each other.
_PATIENCE = 2


@frozen
class Message:
    """A message of CMake, or any other line: numbered ``lines``, and all of them as one ``text``."""

    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        """The message on one line with single spaces."""
        return " ".join(" ".join(line.split()) for _, line in self.lines if line.strip())


@dataclass
class Messages:
    """Takes lines and returns complete messages."""

    _open: list[tuple[int, str]] = field(default_factory=list)
    _indent: int = 0
    _polls: int = 0

    def feed(self, text: str, number: int) -> list[Message]:
        """Take a line and return the messages that ended with it or before it."""
        text = text[:_LONGEST_LINE]
        ended: list[Message] = []
        if self._open:
            if self._goes_on(text):
                self._open.append((number, text))
                return self.rest() if len(self._open) >= _LONGEST_MESSAGE else []
            ended = self.rest()
        head = _HEAD.match(text)
        if head:
            self._open, self._indent, self._polls = [(number, text)], len(head[1]), 0
            return ended
        return [*ended, Message(((number, text),))]

    def patience(self) -> list[Message]:
        """Return the open message where its end is overdue; call it from time to time."""
        self._polls += 1
        return self.rest() if self._polls >= _PATIENCE else []

    def rest(self) -> list[Message]:
        """Return the open message, where there is one: no line follows."""
        lines, self._open = self._open, []
        while lines and not lines[-1][1].strip():
            lines.pop()
        return [Message(tuple(lines))] if lines else []

    def _goes_on(self, text: str) -> bool:
        body = text.lstrip()
        return not body or len(text) - len(body) > self._indent or body.startswith("Call Stack")


_SCRIPT = re.compile(r" -P \"?([^\"]{1,4000}?\.o(?:\.[A-Za-z]{1,40})?\.cmake)(?=\"|\s|$)")
_TARGET = re.compile(r"/CMakeFiles/([^/\s\"]{1,200})\.dir/")
_SET = re.compile(r"^set\((\w+)(?: +(.*?))?\)(?: #.*)?$")
# In a double-quoted word the blanks between the options of ocloc are escaped once more.
_DEVICE = re.compile(r"-device[\\ ]+(?!-)([^\\\s\"']{1,400})")
_STANDARD = re.compile(r"-std=(?:c|gnu)\+\+(\w{2,3})\b")
_ABI = re.compile(r"-D_GLIBCXX_USE_CXX11_ABI=(\d)")
_SYCL_TARGETS = re.compile(r"-fsycl-targets=([\w,+.-]{1,200})")
#: What rules of the gate see of a build without any SYCL command.
NO_SYCL = "no SYCL commands"
_PREVIEW = ("-D__INTEL_PREVIEW_BREAKING_CHANGES", "-fpreview-breaking-changes")


@frozen
class SyclGroup:
    """The SYCL sources of one CMake target, which share their options and are linked together."""

    name: str
    """The CMake target."""
    sources: tuple[str, ...]
    aot: tuple[str, ...] = ()
    """GPUs that device code is compiled for ahead of time, from the generated commands; empty for none."""
    formats: tuple[str, ...] = ()
    """What -fsycl-targets has: spir64_gen for the GPUs, spir64 for code that is compiled when first used."""
    compiler: str = ""
    host_compiler: str = ""
    host_standard: str | None = None
    """C++ standard of the host pass; null if no option sets one."""
    device_standard: str | None = None
    cxx11_abi: int | None = None
    """What the commands define; null for the compiler's default, 1."""
    preview: tuple[str, ...] = ()
    """Options that select the preview ABI of the SYCL library."""

    def line(self) -> str:
        """Return the group as rules of the gate see it."""
        return f"{self.name}: -device {','.join(self.aot) or 'nothing'}"


def read_sycl_groups(build: Path) -> tuple[SyclGroup, ...]:
    """Return the SYCL sources of a build folder by target, largest first; empty where there are none."""
    links: dict[str, str] = {}
    scripts: dict[str, list[dict[str, str]]] = {}
    for line in _commands(build / "build.ninja"):
        target = _TARGET.search(line)
        if target is None:
            continue
        if "-fsycl-link" in line:
            links[target[1]] = _plain(line)
        elif script := _SCRIPT.search(line):
            values = _settings(build / _plain(script[1]))
            if values.get("source_file"):
                scripts.setdefault(target[1], []).append(values)
    groups = [_group(name, found, links.get(name, "")) for name, found in scripts.items()]
    return tuple(sorted(groups, key=lambda group: (-len(group.sources), group.name)))


def home_of(build: Path) -> str | None:
    """Return the source folder that a build folder was configured for."""
    found = read_cache(build).get("CMAKE_HOME_DIRECTORY")
    return os.path.realpath(found) if found else None


def _commands(path: Path) -> Iterator[str]:
    """Yield the commands of a build.ninja that may have to do with SYCL."""
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            if line.startswith("  COMMAND = ") and ("-fsycl-link" in line or ".cmake" in line):
                yield line.rstrip("\n")


def _plain(text: str) -> str:
    """Undo ninja's escapes."""
    return re.sub(r"\$(.)", r"\1", text)


def _settings(path: Path) -> dict[str, str]:
    """Return the variables that a script sets, each as it is set first."""
    values: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in path.read_text("utf-8", "replace").split("\n"):
            if match := _SET.match(line):
                values.setdefault(match[1], (match[2] or "").strip().strip('"'))
    return values


def _group(name: str, scripts: list[dict[str, str]], link: str) -> SyclGroup:
    def first(*names: str) -> str:
        return next((item[key] for item in scripts for key in names if item.get(key)), "")

    definitions = first("SYCL_compile_definitions").removeprefix("[==[").removesuffix("]==]")
    defined = " ".join(f"-D{item}" for item in definitions.split(";") if item)
    device = f"{first('SYCL_flags', 'SYCL_compile_flags')} {defined}"
    host, both = first("CMAKE_HOST_FLAGS"), f"{device} {link}"
    abi = _ABI.search(device) or _ABI.search(host)
    return SyclGroup(
        name=name,
        sources=tuple(sorted(item["source_file"] for item in scripts)),
        aot=_words(_DEVICE.findall(both)),
        formats=_words(_SYCL_TARGETS.findall(device) or _SYCL_TARGETS.findall(link)),
        compiler=first("SYCL_executable"),
        host_compiler=first("SYCL_host_compiler"),
        host_standard=next(reversed(_STANDARD.findall(host)), None),
        device_standard=next(reversed(_STANDARD.findall(device)), None),
        cxx11_abi=int(abi[1]) if abi else None,
        preview=tuple(option for option in _PREVIEW if option in both),
    )


def _words(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for text in texts for word in text.split(",") if word))


# PyTorch's own summary (cmake/Summary.cmake); its build options are indented, found files and paths are not.
_SUMMARY = re.compile(r"^\s{0,8}--\s{1,6}((?:USE|BUILD)_\w{1,60})\s*:\s?(.*)$")
_CACHE = re.compile(r"([A-Za-z_][\w.+-]{0,200}):[A-Z]{1,20}=(.*)")
_SWITCH = re.compile(r"(?:USE|BUILD)_\w{1,60}$")
_WARNING = re.compile(r"^CMake (?:Warning|Error)\b")
#: What a switch is called in messages of upstream that do not name the variable.
_WORDS = {
    "USE_XCCL": ("XCCL", "OneCCL"), "USE_MKLDNN": ("MKLDNN", "oneDNN"), "USE_KINETO": ("Kineto", "PTI"),
    "USE_XPU": ("XPU", "SYCL"), "USE_NUMA": ("NUMA",), "USE_FBGEMM": ("FBGEMM", "AVX2"),
}  # fmt: skip


@frozen
class SwitchFound:
    """A switch of the build: what was requested (None for nothing), what CMake has, and why."""

    name: str
    requested: str | None
    found: str
    on: bool
    reason: str


def cache_lines(file: Path) -> Iterator[tuple[int, str, str, str]]:
    """Yield the number and text of each line of CMakeCache.txt that is an entry, with its name and value."""
    with contextlib.suppress(OSError):  # not there, or CMake replaces it just now
        for number, line in enumerate(file.read_text("utf-8", "replace").split("\n"), 1):
            if match := _CACHE.match(line):
                yield number, line, match[1], match[2].strip()


def read_cache(build: Path) -> dict[str, str]:
    """Return the entries of CMakeCache.txt, empty where there is none."""
    return {name: value for _, _, name, value in cache_lines(build / "CMakeCache.txt")}


def read_messages(log: Iterable[str]) -> tuple[Message, ...]:
    """Return the messages and lines of a log, wrapped ones joined."""
    joined, found = Messages(), []
    for number, line in enumerate(log, 1):
        found += joined.feed(line, number)
    return (*found, *joined.rest())


def read_switches(
    requested: Mapping[str, str], cache: Mapping[str, str], messages: Iterable[Message]
) -> tuple[SwitchFound, ...]:
    """Return every switch that the configuration shows, by name.

    PyTorch's summary counts more than the cache: CMake may change a switch for one run.
    """
    every = tuple(messages)
    found = {name: value for name, value in cache.items() if _SWITCH.fullmatch(name)}
    for message in every:
        match = _SUMMARY.match(message.lines[0][1])
        if match:
            found[match[1]] = match[2].strip()
    warnings = [message for message in every if _WARNING.match(message.text)]

    def reason(name: str, value: str) -> str:
        if name not in requested:
            return "upstream's default"
        if (requested[name].lower() in OFF) == (value.lower() in OFF):
            return "requested"
        words = (name, *_WORDS.get(name, ()))
        about = next((item for item in warnings if any(word in item.text for word in words)), None)
        if about is None:
            return "changed by CMake; the log has no message about it"
        return f"{about.text} (line {about.lines[0][0]} of the log)"

    return tuple(
        SwitchFound(name, requested.get(name), value, value.lower() not in OFF, reason(name, value))
        for name, value in sorted(found.items())
    )
