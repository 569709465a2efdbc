"""Reads ninja's own record of a build, ``.ninja_log``: when each edge started and ended, in which step.

The format is that of ninja 1.13's ``src/build_log.cc``: a first line with the version, then one line per
output with start and end in milliseconds after ninja began, the time when the edge was started (nanoseconds
since the epoch; later for edges with ``restat``; 0 in logs of old versions), the output and a hash, separated
by tabs. Each run of ninja appends its edges as they end: a smaller end time marks the beginning of a run.
"""

from __future__ import annotations

import contextlib
import os
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from xpubuild.frozen import frozen
from xpubuild.workspace.layout import Layout

#: Of ninja 1.3 (2013) to 1.13; distributions have old ones.
_NAME, _HEADS = ".ninja_log", tuple(f"# ninja log v{version}" for version in (5, 6, 7))
_LINE = re.compile(r"(\d{1,19})\t(\d{1,19})\t(\d{1,19})\t([^\t]+)\t(\w+)", re.ASCII)
#: Folders below one that is searched; a build tree of PyTorch has its log at its top.
_DEEPEST = 5
#: PyTorch's own has some 15,000 lines and 2 MB.
_LARGEST_BYTES = 64 << 20
#: Seconds by which ninja's times and those of the journal may differ.
_TOLERANCE_S = 2.0

#: Step, when something of it ran: from, to (seconds since the epoch).
Ran = tuple[str, float, float]


@frozen
class Edge:
    """One command that ninja ran."""

    output: str
    """Its first output, as the build names it."""
    start_s: float
    """Seconds after this run of ninja began."""
    duration_s: float


@frozen
class NinjaBuild:
    """A run of ninja in a build folder, without edges that a later run there ran again."""

    folder: str
    """Relative to the workspace."""
    step: str
    """The step that ran it; empty if no step matches its times."""
    started: float | None
    """Seconds since the epoch; null where no step ran then."""
    span_s: float
    """Seconds to the end of its last edge."""
    edges: tuple[Edge, ...]


def ninja_builds(layout: Layout, ran: Sequence[Ran]) -> tuple[NinjaBuild, ...]:
    """Return what ninja recorded in ``build`` and in the build folders of checkouts, in order of time."""
    found = []
    # setup.py of PyTorch builds in its checkout.
    for path in find((layout.build, *layout.src.glob("*/build*"))):
        with contextlib.suppress(OSError):
            place = path.parent.relative_to(layout.root)
            found += [_placed(place, began, edges, ran) for began, edges in read(path)]
    return tuple(sorted(found, key=lambda build: (build.started or 0.0, build.folder)))


def _placed(place: Path, began: float, edges: tuple[Edge, ...], ran: Sequence[Ran]) -> NinjaBuild:
    span = max(edge.start_s + edge.duration_s for edge in edges)
    # Seconds of this run outside those of the step. Two components may be built at the same time: then the
    # component's name in the path of the folder decides.
    fits = []
    for name, begin, end in ran:
        outside = round(max(0.0, begin - began) + max(0.0, began + span - end), 1)
        fits.append((outside, name.partition(".")[0] not in place.parts, name))
    outside, _, step = min(fits, default=(_TOLERANCE_S, True, ""))
    if outside >= _TOLERANCE_S:
        return NinjaBuild(str(place), "", None, span, edges)
    return NinjaBuild(str(place), step, began, span, edges)


def find(folders: Iterable[Path]) -> list[Path]:
    """Return the logs of ninja in folders and a few levels below, in order."""
    return sorted({path for folder in folders for path in _below(folder, _DEEPEST)})


def _below(folder: Path, depth: int) -> Iterator[Path]:
    with contextlib.suppress(OSError), os.scandir(folder) as found:
        for entry in found:
            if entry.name == _NAME and entry.is_file(follow_symlinks=False):
                yield Path(entry.path)
            elif depth and entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path), depth - 1)


def read(path: Path) -> list[tuple[float, tuple[Edge, ...]]]:
    """Return the runs in a log, oldest first: when each began, and its edges.

    Edges that a later run ran again are left out; there are none where the file has another format.

    Raises:
        OSError: it cannot be read.
    """
    about = path.stat()
    text = path.read_text("utf-8", "replace") if about.st_size <= _LARGEST_BYTES else ""
    first, *texts = text.splitlines() or [""]
    runs: list[list[tuple[int, int, int, str, str]]] = []
    last = 0
    for match in map(_LINE.fullmatch, texts if first in _HEADS else ()):
        # A log that was cut has half a line.
        if match is None or (start := int(match[1])) > (end := int(match[2])):
            continue
        if not runs or end < last:
            runs.append([])
        runs[-1].append((start, end, int(match[3]), match[4], match[5]))
        last = end
    newest = {output: number for number, run in enumerate(runs) for _, _, _, output, _ in run}
    found = []
    for number, run in enumerate(runs):
        begins = [time_ns / 1e9 - start / 1000 for start, _, time_ns, _, _ in run if time_ns]
        # Else the last line was written when its edge had ended.
        began = statistics.median(begins) if begins else about.st_mtime - last / 1000
        edges: dict[tuple[int, int, str], Edge] = {}
        for start, end, _, output, mark in run:
            if newest[output] == number:
                # Each output of an edge has a line; they share times and hash.
                edges.setdefault((start, end, mark), Edge(output, start / 1000, (end - start) / 1000))
        if edges:
            found.append((began, tuple(edges.values())))
    return found
