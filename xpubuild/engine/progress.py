"""Turns what a command prints into counted progress. Pure: lines and a clock go in, events come out.

Formats read: ninja (``[12/345] text``), git (``Receiving objects:  45% (90/200)``), pip's words and its
``--progress-bar=raw`` (``Progress 12 of 345``, bytes), CMake's ``-- text``. A child xpubuild prints the
same ones.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from pathlib import PurePosixPath

from xpubuild.engine.events import StepProgress
from xpubuild.engine.lines import PASSING
from xpubuild.frozen import frozen

_SHORTEST_GAP_S = 0.2
_LONGEST_DETAIL = 160
#: Numbers with more digits are not counts of anything a build does.
_NUMBER = r"([0-9]{1,15})"
_NINJA = re.compile(rf"\[{_NUMBER}/{_NUMBER}(?:\s[^\]]*)?\]\s*(.*)", re.DOTALL)
_GIT = re.compile(
    rf"(?:remote: )?([A-Za-z][A-Za-z _-]{{0,40}}): +[0-9]{{1,3}}% \({_NUMBER}/{_NUMBER}\)(.*)", re.DOTALL
)
#: A child ``xpubuild verify`` counts its checks the way ninja counts edges.
_CHECK = re.compile(r"(?:pass|fail|skip|crash|timeout) ")
_PIP = re.compile(
    r"(Collecting|Downloading|Using cached|Processing|Cloning into|Submodule path"
    r"|Building (?:wheels? for|editable for)|Preparing (?:editable )?metadata|Getting requirements to build"
    r"|Installing (?:build dependencies|backend dependencies|collected packages)"
    r"|Successfully (?:built|installed))\b.*",
    re.DOTALL,
)
#: After these, nothing is printed for a while: they are shown at once.
_SLOW = ("installing", "building", "preparing", "cloning", "re-running")
#: What ninja does with a file, by its command (with ``-v``, as torch's cpp_extension calls it) or its words.
_DOING = (
    (re.compile(r".*?\s-c\s+('[^']+'|\"[^\"]+\"|\S+).*", re.DOTALL), "compiling"),
    (re.compile(r".*?\s-o\s+('[^']+'|\"[^\"]+\"|\S+).*", re.DOTALL), "linking"),
    (re.compile(r"Building \S+ (?:[\w ]*\s)?(\S+?)(?:\.o)?"), "compiling"),
    (re.compile(r"Linking \S+ (?:[\w ]*\s)?(\S+)"), "linking"),
)


@frozen
class _Line:
    """What one line says: a count if ``total`` is not 0. ``fresh``: earlier counts are over."""

    detail: str | None
    done: int = 0
    total: int = 0
    unit: str = ""
    label: str = ""
    fresh: bool = False


def _parse(line: str) -> _Line | None:
    # pip indents what a build backend prints.
    text = line.strip()
    if found := _NINJA.fullmatch(text):
        done, total, rest = int(found[1]), int(found[2]), found[3].strip()
        if rest.startswith("Re-running CMake"):
            # Ninja starts to count again afterwards; this step of its own would show a full bar.
            return _Line("re-running CMake", fresh=True)
        unit = "checks" if _CHECK.match(rest) else "edges"
        return _Line(_doing(rest), done, total, unit, "ninja") if done <= total > 0 else None
    if found := _GIT.fullmatch(text):
        label, done, total = found[1].lower(), int(found[2]), int(found[3])
        rest = found[4].strip(" ,.").removesuffix("done").strip(" ,")
        unit = "files" if label == "filtering content" else label.split()[-1]
        detail = f"{label}, {rest}" if rest else label
        return _Line(detail, done, total, unit, label) if done <= total > 0 else None
    if found := PASSING.fullmatch(text):
        done, total = int(found[1]), int(found[2])
        return _Line(None, done, total, "bytes", "bytes") if 0 < total >= done else None
    if found := _PIP.fullmatch(text):
        # Where a requirement comes from is the longer part of the line, and known.
        words = text.partition(" (from ")[0]
        if found[1] == "Processing":
            words = f"Processing {PurePosixPath(words).name}"
        # pip repeats "Building wheel for x: still running..." while ninja counts; this must not end it.
        return _Line(words[:1].lower() + words[1:], fresh=not text.endswith("still running..."))
    return _Line(text[3:].strip()) if text.startswith("-- ") and text[3:].strip() else None


def _doing(text: str) -> str:
    for pattern, verb in _DOING:
        if found := pattern.fullmatch(text):
            return f"{verb} {PurePosixPath(found[1].strip(chr(39) + chr(34))).name}"
    return text


def is_counter(line: str) -> bool:
    """Whether a line only counts and is followed by its like: of no use where it cannot be drawn over.

    The last line of git's counts stays, and so do ninja's, which name what is made.
    """
    text = line.strip()
    return bool(PASSING.fullmatch(text) or (_GIT.fullmatch(text) and not text.endswith("done.")))


class ProgressMeter:
    """Follows the output of one command of a step.

    ``done`` never falls within one count; a new count (another phase, another run of ninja) has its own.
    ``clock`` returns seconds and need not be the wall clock. Not safe for several threads at once.
    """

    def __init__(self, step: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._step, self._clock = step, clock
        self._detail = ""
        self._sent = -math.inf
        self._end()

    def _end(self) -> None:
        self._label = self._unit = ""
        self._done = self._total = 0
        self._inner = False

    def feed(self, line: str) -> StepProgress | None:
        """Take one line; return progress to show, at most about five times a second, else None.

        Where nothing is counted, ``total`` is 0 and only ``detail`` says what goes on.
        """
        found = _parse(line)
        if found is None:
            return None
        now = self._clock()
        urgent = self._take(found)
        if not urgent and abs(now - self._sent) < _SHORTEST_GAP_S:
            return None
        self._sent = now
        return StepProgress(time.time(), self._step, self._done, self._total, self._unit, self._detail)

    def _take(self, line: _Line) -> bool:
        """Update count and detail; return whether that must be shown: a begin or an end."""
        in_ninja = self._label == "ninja" and self._done < self._total
        if line.fresh and not (in_ninja and line.detail != "re-running CMake"):
            # pip's words may come from a command that ninja runs: its count goes on.
            self._end()
        if line.detail is not None:
            self._detail = line.detail[:_LONGEST_DETAIL]
        if line.total == 0:
            return line.fresh and self._detail.startswith(_SLOW)
        same = line.label == self._label
        again = same and self._done >= self._total and line.done < self._done
        # The next line after ninja found or pruned edges has another total.
        moved = in_ninja and same and line.done == self._done + 1 and not self._inner
        if same and not again and (line.total == self._total or moved):
            self._inner = False
            self._done = max(self._done, line.done)
            self._total = max(line.total, self._done)
            return self._done >= self._total
        if in_ninja and same and line.total < self._total:
            # A ninja inside the ninja that is counted (an ExternalProject).
            self._inner = line.done < line.total
            self._detail = f"[{line.done}/{line.total}] {self._detail}"[:_LONGEST_DETAIL]
            return False
        self._end()
        self._label, self._unit, self._done, self._total = line.label, line.unit, line.done, line.total
        return True
