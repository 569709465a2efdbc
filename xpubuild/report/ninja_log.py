"""Reads ninja's own record of a build, ``.ninja_log``: when each edge started and ended.

The format is that of ninja's ``src/build_log.cc``: a first line with the version, then one line per output
with start and end in milliseconds after ninja began, the output's time, its name and a hash, by tabs. Each
run of ninja appends its edges as they end, so the end goes back where a run begins. Of a run before the
last one nothing tells when it was, and ninja drops its older lines now and then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

NAME = ".ninja_log"
#: Versions whose columns are those above: ninja 1.3 (2013) wrote 5.
_VERSIONS = ("5", "6", "7")
_HEAD = "# ninja log v"
_COLUMNS, _MOST_DIGITS = 5, 12
#: Folders below one that is searched; a build tree of PyTorch has its log at its top.
_DEEPEST = 5
#: PyTorch's own has some 15,000 lines and 2 MB.
_LARGEST_BYTES = 64 << 20


@dataclass(frozen=True)
class Edge:
    """One command that ninja ran."""

    output: str
    """Its first output, as the build names it."""
    start_s: float | None
    """Seconds after the last run of ninja began; null if an earlier run made it."""
    duration_s: float


@dataclass(frozen=True)
class NinjaLog:
    """What was made in one build folder, each edge as it was made last."""

    edges: tuple[Edge, ...]
    """Those of earlier runs first."""
    began: float
    """When the last run did (seconds since the epoch); right where the file is not a copy."""
    span_s: float
    """Seconds from there to the end of its last edge."""


def find(folders: Iterator[Path]) -> list[Path]:
    """Return the logs of ninja in folders and a few levels below, in order."""
    return sorted({path for folder in folders for path in _below(folder, _DEEPEST)})


def _below(folder: Path, depth: int) -> Iterator[Path]:
    try:
        with os.scandir(folder) as found:
            entries = list(found)
    except OSError:
        return
    for entry in entries:
        if entry.name == NAME and entry.is_file(follow_symlinks=False):
            yield Path(entry.path)
        elif depth and entry.is_dir(follow_symlinks=False):
            yield from _below(Path(entry.path), depth - 1)


def read(path: Path) -> NinjaLog | None:
    """Return the last run in a log, None where the file has none or another format.

    Raises:
        OSError: it cannot be read.
    """
    about = path.stat()
    if about.st_size > _LARGEST_BYTES:
        return None
    first, *lines = path.read_text("utf-8", "replace").splitlines() or [""]
    if first.removeprefix(_HEAD) not in _VERSIONS:
        return None
    runs: list[dict[tuple[int, int, str], str]] = []
    last = 0
    for start, end, output, mark in _rows(lines):
        if not runs or end < last:
            runs.append({})
        # Each output of an edge has a line; they share times and hash.
        runs[-1].setdefault((start, end, mark), output)
        last = end
    if not runs:
        return None
    edges: dict[str, Edge] = {}
    for run in runs:
        for (start, end, _), output in run.items():
            edges.pop(output, None)
            began = start / 1000 if run is runs[-1] else None
            edges[output] = Edge(output, began, (end - start) / 1000)
    return NinjaLog(tuple(edges.values()), about.st_mtime - last / 1000, last / 1000)


def _rows(lines: list[str]) -> Iterator[tuple[int, int, str, str]]:
    """Yield start, end (ms), output and hash of each whole line; a log that was cut has half a line."""
    for line in lines:
        columns = line.split("\t")
        if len(columns) != _COLUMNS or max(map(len, columns[:2])) > _MOST_DIGITS:
            continue
        try:
            start, end = int(columns[0]), int(columns[1])
        except ValueError:
            continue
        if 0 <= start <= end:
            yield start, end, columns[3], columns[4]
