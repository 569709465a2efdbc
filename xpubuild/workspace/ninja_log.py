"""Reads ninja's own record of a build, ``.ninja_log``: when each edge started and ended.

The format is that of ninja's ``src/build_log.cc``: a first line with the version, then one line per output
with start and end in milliseconds after ninja began, a time, the output and a hash, by tabs. Each run of
ninja appends its edges as they end, so the end goes back where a run begins. ninja 1.13 has as the time when
the edge was started (nanoseconds since the epoch; later for edges with ``restat``), old ones 0 for most.
Now and then ninja writes its older lines anew, in any order.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from xpubuild.frozen import frozen

NAME = ".ninja_log"
#: Versions whose columns are those above: ninja 1.3 (2013) wrote 5.
_VERSIONS = ("5", "6", "7")
_HEAD = "# ninja log v"
_COLUMNS, _MOST_DIGITS = 5, 19
#: Folders below one that is searched; a build tree of PyTorch has its log at its top.
_DEEPEST = 5
#: PyTorch's own has some 15,000 lines and 2 MB.
_LARGEST_BYTES = 64 << 20


#: Runs of ninja that seem to have begun within this time are one, whose lines were written anew.
_SAME_S = 1.0


@frozen
class Edge:
    """One command that ninja ran."""

    output: str
    """Its first output, as the build names it."""
    start_s: float
    """Seconds after this run of ninja began."""
    duration_s: float


@frozen
class NinjaRun:
    """One run of ninja in a build folder, without edges that a later one ran again."""

    began: float | None
    """Seconds since the epoch; None where nothing tells."""
    edges: tuple[Edge, ...]

    @property
    def span_s(self) -> float:
        """Seconds from the begin of the run to the end of its last edge."""
        return max(edge.start_s + edge.duration_s for edge in self.edges)


@frozen
class _Line:
    start: int
    end: int
    time_ns: int
    output: str
    mark: str


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


def read(path: Path) -> list[NinjaRun]:
    """Return the runs in a log, oldest first; none where the file has another format.

    Raises:
        OSError: it cannot be read.
    """
    about = path.stat()
    if about.st_size > _LARGEST_BYTES:
        return []
    first, *lines = path.read_text("utf-8", "replace").splitlines() or [""]
    if first.removeprefix(_HEAD) not in _VERSIONS:
        return []
    parts: list[list[_Line]] = []
    last = 0
    for line in _lines(lines):
        if not parts or line.end < last:
            parts.append([])
        parts[-1].append(line)
        last = line.end
    begins = [_began(part) for part in parts]
    if parts and begins[-1] is None:
        # The last line was written when its edge had ended.
        begins[-1] = about.st_mtime - last / 1000
    return _runs(parts, begins)


def _lines(lines: list[str]) -> Iterator[_Line]:
    """Yield each whole line; a log that was cut has half a one."""
    for text in lines:
        columns = text.split("\t")
        if len(columns) != _COLUMNS or max(map(len, columns[:3])) > _MOST_DIGITS:
            continue
        try:
            start, end, time_ns = map(int, columns[:3])
        except ValueError:
            continue
        if 0 <= start <= end:
            yield _Line(start, end, time_ns, columns[3], columns[4])


def _began(part: Sequence[_Line]) -> float | None:
    found = [line.time_ns / 1e9 - line.start / 1000 for line in part if line.time_ns > 0]
    return statistics.median(found) if found else None


def _runs(parts: Sequence[Sequence[_Line]], begins: Sequence[float | None]) -> list[NinjaRun]:
    newest = {line.output: number for number, part in enumerate(parts) for line in part}
    joined: list[tuple[float | None, dict[tuple[int, int, str], Edge]]] = []
    for number in sorted(range(len(parts)), key=lambda item: begins[item] or 0.0):
        began, before = begins[number], joined[-1][0] if joined else None
        if began is None or before is None or began - before > _SAME_S:
            joined.append((began, {}))
        for line in parts[number]:
            if newest[line.output] == number:
                edge = Edge(line.output, line.start / 1000, (line.end - line.start) / 1000)
                # Each output of an edge has a line; they share times and hash.
                joined[-1][1].setdefault((line.start, line.end, line.mark), edge)
    return [NinjaRun(began, tuple(edges.values())) for began, edges in joined if edges]
