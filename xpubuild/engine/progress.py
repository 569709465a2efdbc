"""Turns what a command prints into counted progress. Pure: lines and a clock go in, numbers come out.

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

from xpubuild.frozen import frozen

_SHORTEST_GAP_S = 0.2
_LONGEST_DETAIL = 160
#: A longer estimate is noise, not information.
_LONGEST_ETA_S = 30 * 24 * 3600.0
#: Numbers with more digits are not counts of anything a build does.
_NUMBER = r"([0-9]{1,15})"
_NINJA = re.compile(rf"\[{_NUMBER}/{_NUMBER}(?:\s[^\]]*)?\]\s*(.*)", re.DOTALL)
_GIT = re.compile(
    rf"(?:remote: )?([A-Za-z][A-Za-z _-]{{0,40}}): +[0-9]{{1,3}}% \({_NUMBER}/{_NUMBER}\)(.*)", re.DOTALL
)
#: A child ``xpubuild verify`` counts its checks the way ninja counts edges.
_CHECK = re.compile(r"(?:pass|fail|skip|crash|timeout) ")
_PIP_RAW = re.compile(rf"Progress {_NUMBER} of {_NUMBER}\s*")
_PIP = re.compile(
    r"(Collecting|Downloading|Using cached|Processing|Cloning into|Submodule path"
    r"|Building (?:wheels? for|editable for)|Preparing (?:editable )?metadata|Getting requirements to build"
    r"|Installing (?:build dependencies|backend dependencies|collected packages)"
    r"|Successfully (?:built|installed))\b.*",
    re.DOTALL,
)
#: After these, nothing is printed for a while: they are shown at once.
_SLOW = ("Installing", "Building", "Preparing", "Cloning")
_COMPILED = re.compile(r"\s-c\s+('[^']+'|\"[^\"]+\"|\S+)")
_WRITTEN = re.compile(r"\s-o\s+('[^']+'|\"[^\"]+\"|\S+)")
_BUILDING = re.compile(r"(Building|Linking) \S+ (?:[\w ]*\s)?(\S+)")


@frozen
class Progress:
    """Where a command is: ``rate`` in units per second, ``eta_s`` in seconds; 0 where unknown.

    ``total`` is 0 where nothing is counted; then only ``detail`` says what goes on.
    """

    done: int = 0
    total: int = 0
    unit: str = ""
    rate: float = 0.0
    eta_s: float = 0.0
    detail: str = ""


@frozen
class _Line:
    """What one line says. ``fresh``: earlier counts are over; ``urgent``: shown even right after another."""

    detail: str | None
    done: int = 0
    total: int = 0
    unit: str = ""
    label: str = ""
    fresh: bool = False
    urgent: bool = False


def _compile_detail(text: str) -> str:
    """Say which file is worked on; ``ninja -v`` (as torch's cpp_extension calls it) prints whole commands."""
    for pattern, verb in ((_COMPILED, "compiling"), (_WRITTEN, "linking")):
        found = pattern.search(text)
        if found:
            return f"{verb} {PurePosixPath(found[1].strip(chr(39) + chr(34))).name}"
    found = _BUILDING.fullmatch(text.strip())
    if found:
        name = PurePosixPath(found[2]).name
        return f"linking {name}" if found[1] == "Linking" else f"compiling {name.removesuffix('.o')}"
    return text.strip()


def _ninja(line: str) -> _Line | None:
    found = _NINJA.fullmatch(line)
    if found is None:
        return None
    done, total, text = int(found[1]), int(found[2]), found[3]
    if text.startswith("Re-running CMake"):
        # Ninja counts anew afterwards; this step of its own would show a full bar.
        return _Line("re-running CMake", label="ninja", fresh=True, urgent=True)
    if not 0 <= done <= total or total == 0:
        return None
    unit = "checks" if _CHECK.match(text) else "edges"
    return _Line(_compile_detail(text), done, total, unit, "ninja")


def _git(line: str) -> _Line | None:
    found = _GIT.fullmatch(line)
    if found is None:
        return None
    label, done, total = found[1].lower(), int(found[2]), int(found[3])
    if total == 0 or done > total:
        return None
    rest = found[4].strip(" ,.").removesuffix("done").strip(" ,")
    detail = f"{label}, {rest}" if rest else label
    unit = "files" if label == "filtering content" else label.split()[-1]
    return _Line(detail, done, total, unit, label)


def _pip(line: str) -> _Line | None:
    raw = _PIP_RAW.fullmatch(line)
    if raw is not None:
        done, total = int(raw[1]), int(raw[2])
        return _Line(None, done, total, "bytes", "bytes") if 0 < total >= done else None
    text = line.strip()
    found = _PIP.fullmatch(text)
    if found is None:
        return None
    # pip repeats "Building wheel for x: still running..." while ninja counts; that must not end the count.
    begins = not text.endswith("still running...")
    # Where a requirement comes from is the longer part of the line, and known.
    text = text.partition(" (from ")[0]
    if found[1] == "Processing":
        text = f"Processing {PurePosixPath(text).name}"
    return _Line(text[:1].lower() + text[1:], fresh=begins, urgent=begins and found[1].startswith(_SLOW))


def _cmake(line: str) -> _Line | None:
    return _Line(line[3:].strip()) if line.startswith("-- ") and line[3:].strip() else None


def _parse(line: str) -> _Line | None:
    for parser in (_ninja, _git, _pip, _cmake):
        # pip indents what a build backend prints.
        found = parser(line.strip())
        if found is not None:
            return found
    return None


def is_counter(line: str) -> bool:
    """Whether a line only counts and is followed by its like: of no use where it cannot be drawn over.

    The last line of git's counts stays, and so do ninja's, which name what is made.
    """
    text = line.strip()
    return _PIP_RAW.fullmatch(text) is not None or (_git(text) is not None and not text.endswith("done."))


class _Rate:
    """Units per second as a decaying mean over time, so that a burst from a compile cache is soon forgotten.

    The memory grows with the time observed (15 s to 5 min): quick at first, steady in an hour-long build.
    """

    def __init__(self, now: float) -> None:
        self._began = self._last = now
        self._units = 0.0
        self._seconds = 0.0

    def add(self, units: int, now: float) -> None:
        passed = max(0.0, now - self._last)
        memory = min(max((now - self._began) / 4, 15.0), 300.0)
        kept = math.exp(-passed / memory)
        # The weight of this stretch of time; its units are taken as spread evenly over it.
        weight = -memory * math.expm1(-passed / memory)
        self._units = self._units * kept + units * (weight / passed if passed > 0 else 1.0)
        self._seconds = self._seconds * kept + weight
        self._last = max(self._last, now)

    def value(self) -> float:
        """Return units per second; 0 before one second was seen."""
        return self._units / self._seconds if self._seconds >= 1.0 else 0.0


class _Count:
    """One count from its first line to its last; ``done`` never falls."""

    def __init__(self, line: _Line, now: float) -> None:
        self.label, self.unit = line.label, line.unit
        self.done, self.total = line.done, line.total
        self.rate = _Rate(now)

    @property
    def complete(self) -> bool:
        return self.done >= self.total

    def holds(self, line: _Line) -> bool:
        """Whether the line surely belongs to this count."""
        again = self.complete and line.done < self.done
        return line.label == self.label and line.total == self.total and not again

    def moved_to(self, line: _Line) -> bool:
        """Whether it is the next line after ninja found or pruned edges, which moves the total."""
        return line.label == self.label and not self.complete and line.done == self.done + 1

    def advance(self, line: _Line, now: float) -> None:
        self.rate.add(max(0, line.done - self.done), now)
        self.done = max(self.done, line.done)
        self.total = max(line.total, self.done)

    def progress(self, detail: str) -> Progress:
        rate = self.rate.value()
        eta_s = (self.total - self.done) / rate if rate > 0 else 0.0
        return Progress(
            self.done, self.total, self.unit, rate, eta_s if eta_s < _LONGEST_ETA_S else 0.0, detail
        )


class ProgressMeter:
    """Follows the output of one command.

    ``done`` never falls within one count; a new count (another phase, a ninja run anew) has its own.
    ``clock`` returns seconds and need not be the wall clock. Not safe for several threads at once.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count: _Count | None = None
        self._inner: _Count | None = None
        self._detail = ""
        self._sent = -math.inf
        self._held: Progress | None = None
        self._downloaded: _Line | None = None
        #: Bytes of the downloads that were counted to their end.
        self.downloaded_bytes = 0

    def feed(self, line: str) -> Progress | None:
        """Take one line; return progress to show, at most about five times a second, else None."""
        parsed = _parse(line)
        if parsed is None:
            return None
        if parsed.unit == "bytes" and parsed.done == parsed.total and parsed != self._downloaded:
            self.downloaded_bytes += parsed.total
            self._downloaded = parsed
        now = self._clock()
        urgent = self._take(parsed, now) or parsed.urgent
        self._held = self._count.progress(self._detail) if self._count else Progress(detail=self._detail)
        if not urgent and abs(now - self._sent) < _SHORTEST_GAP_S:
            return None
        self._sent = now
        return self.pending()

    def pending(self) -> Progress | None:
        """Return the newest progress if ``feed`` held it back, once; for a caller that has a tick."""
        held, self._held = self._held, None
        return held

    def _take(self, line: _Line, now: float) -> bool:
        """Bring counts and detail up to date; return whether a count began or was completed."""
        if line.fresh and not self._inside_ninja(line):
            self._count = self._inner = None
        if line.detail is not None:
            self._detail = line.detail[:_LONGEST_DETAIL]
        if line.total == 0:
            return False
        owner = self._owner(line)
        if owner is None:
            return self._begin(line, now)
        before = owner.complete
        owner.advance(line, now)
        if owner is self._inner:
            self._name_inner(line)
            return False
        self._inner = None
        return owner.complete and not before

    def _inside_ninja(self, line: _Line) -> bool:
        """Whether pip's words come from a command that ninja runs: its count goes on."""
        count = self._count
        return count is not None and count.label == "ninja" != line.label and not count.complete

    def _owner(self, line: _Line) -> _Count | None:
        known = [count for count in (self._count, self._inner) if count is not None]
        for count in known:
            if count.holds(line):
                return count
        # The innermost goes on first: the outer ninja prints nothing while the inner one runs.
        for count in reversed(known):
            if count.moved_to(line):
                return count
        return None

    def _begin(self, line: _Line, now: float) -> bool:
        outer = self._count
        in_ninja = outer is not None and outer.label == line.label == "ninja" and not outer.complete
        if outer is not None and in_ninja and line.total < outer.total:
            self._inner = _Count(line, now)
            self._name_inner(line)
            return False
        self._count, self._inner = _Count(line, now), None
        return True

    def _name_inner(self, line: _Line) -> None:
        """Tell the count of a ninja inside the ninja that is counted (an ExternalProject) as detail."""
        self._detail = f"[{line.done}/{line.total}] {self._detail}"[:_LONGEST_DETAIL]
