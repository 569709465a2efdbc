"""What a configured build has decided, read from its log, ``CMakeCache.txt`` and ``build.ninja``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from xpubuild.artifacts.cmake_lines import Message, Messages
from xpubuild.artifacts.expectation import OFF
from xpubuild.frozen import frozen

# PyTorch's own summary (cmake/Summary.cmake); its build options are indented, found files and paths are not.
_SUMMARY = re.compile(r"^\s{0,8}--\s{1,6}((?:USE|BUILD)_\w{1,60})\s*:\s?(.*)$")
_CACHE = re.compile(r"^([A-Za-z_][\w.-]{0,200}):[A-Z]{1,20}=(.*)$")
_SWITCH = re.compile(r"(?:USE|BUILD)_\w{1,60}$")
_WARNING = re.compile(r"^CMake (?:Warning|Error)\b")
#: What a switch is called in messages of upstream that do not name the variable.
_WORDS = {
    "USE_XCCL": ("XCCL", "OneCCL"),
    "USE_MKLDNN": ("MKLDNN", "oneDNN"),
    "USE_KINETO": ("Kineto", "PTI"),
    "USE_XPU": ("XPU", "SYCL"),
    "USE_NUMA": ("NUMA",),
    "USE_FBGEMM": ("FBGEMM", "AVX2"),
}
_REQUESTED, _DEFAULT = "requested", "upstream's default"


@frozen
class SwitchFound:
    """A switch of the build: what was requested (None for nothing), what CMake has, and why."""

    name: str
    requested: str | None
    found: str
    on: bool
    reason: str


def read_cache(build: Path) -> dict[str, str]:
    """Return the entries of CMakeCache.txt, empty where there is none."""
    try:
        text = (build / "CMakeCache.txt").read_text("utf-8", "replace")
    except OSError:
        return {}
    return {match[1]: match[2].strip() for line in text.split("\n") if (match := _CACHE.match(line))}


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
    return tuple(
        SwitchFound(
            name=name,
            requested=requested.get(name),
            found=value,
            on=value.lower() not in OFF,
            reason=_reason(name, requested.get(name), value, warnings),
        )
        for name, value in sorted(found.items())
    )


def _reason(name: str, requested: str | None, found: str, warnings: Iterable[Message]) -> str:
    if requested is None:
        asked, differs = _DEFAULT, False
    else:
        asked, differs = _REQUESTED, (requested.lower() in OFF) != (found.lower() in OFF)
    if not differs:
        return asked
    words = (name, *_WORDS.get(name, ()))
    told = [message for message in warnings if any(word in message.text for word in words)]
    if not told:
        return "changed by CMake; the log has no message about it"
    return f"{told[0].text} (line {told[0].lines[0][0]} of the log)"
