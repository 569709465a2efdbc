"""The compile cache of a build, and how often it hit, by its own logs.

ccache writes a line ``# SOURCE`` and then a counter per line for each call (``stats_log`` in its manual; the
names are those of its ``core/Statistics.cpp``).
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any, Literal

from xpubuild.documents import plain
from xpubuild.engine.journal import StepRecord
from xpubuild.frozen import frozen

#: What --compile-cache accepts; auto is ccache where it is installed.
Wanted = Literal["auto", "ccache", "none"]
Family = Literal["C++", "SYCL", "link", "AOT"]


@frozen
class CompileCache:
    """The program, and what it needs beside what the plan knows (workspace, component).

    ``hashed`` are files that decide what the host compiler makes, beside the compiler itself; ``sycl_hashed``
    are those of the SYCL compiler. ``launched`` is False where CC and CXX lead to the program already.
    ``sloppiness`` is what the user's own configuration of ccache has.
    """

    path: str
    environment: Mapping[str, str] = field(default_factory=dict)
    hashed: tuple[str, ...] = ()
    sycl_hashed: tuple[str, ...] = ()
    sloppiness: str = ""
    launched: bool = True
    place: str = ""
    """Where objects are kept, for people."""
    server: str = ""
    """The host that objects are shared by, if it is another."""


@frozen
class FamilyCounts:
    """What became of the calls of one kind of compiler in the last attempt at a step."""

    family: Family
    """`link` and `AOT` (device link with ahead-of-time compilation) are never kept by a cache."""
    calls: int
    hits: int
    misses: int
    not_cached: int
    """Calls whose result the cache does not keep."""
    remote_hits: int
    """The part of the hits that came from the remote storage."""
    reasons: Mapping[str, int]
    """Why calls missed or were not cached, in words: how many."""


@frozen
class StepCounts:
    """The counts of one step that compiled."""

    step: str
    program: Literal["ccache"]
    families: tuple[FamilyCounts, ...]


_HITS = frozenset({"direct_cache_hit", "preprocessed_cache_hit"})
#: What is no outcome but explains one, or is about the cache as a whole.
_DETAILS = re.compile(
    r"(?:local|remote|primary|secondary)_storage_\w+|(?:direct|preprocessed)_cache_miss|cache_size_kibibyte"
    r"|files_in_cache|cleanups_performed|obsolete_\w+|subdir_\w+|stats_zeroed_timestamp"
)
_LINK = "called_for_link"
_WORDS = {
    "new": "not seen before: source, options or compiler", "changed": "an included file changed",
    "autoconf_test": "a test of configure", "called_for_link": "a link",
    "called_for_preprocessing": "preprocessing only", "internal_error": "an error inside the cache",
}  # fmt: skip


def counts_of(logs: Sequence[tuple[Family, Path]]) -> tuple[FamilyCounts, ...]:
    """Return the counts of each family that was called; nothing where no log can be read."""
    tallies: dict[Family, Counter[str]] = {}
    for family, path in logs:
        for outcome, remote in _calls(path):
            linked: Family = "AOT" if family == "SYCL" else "link"
            tally = tallies.setdefault(linked if outcome == _LINK else family, Counter())
            tally[outcome] += 1
            tally["remote"] += remote
    return tuple(_family(family, tally) for family, tally in sorted(tallies.items()))


def _family(family: Family, tally: Counter[str]) -> FamilyCounts:
    remote = tally.pop("remote", 0)
    hits, misses = tally["hit"], tally["new"] + tally["changed"]
    others = ((name, count) for name, count in tally.most_common() if name != "hit" and count)
    reasons = {_WORDS.get(name, name.replace("_", " ")): count for name, count in others}
    calls = sum(tally.values())
    return FamilyCounts(family, calls, hits, misses, calls - hits - misses, remote, reasons)


def _calls(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the outcome of each call, and whether its object came from the remote storage."""
    counters: list[str] = []
    with contextlib.suppress(OSError), path.open(encoding="utf-8", errors="replace") as stream:
        for line in itertools.chain(stream, ["# "]):
            if not line.startswith("# "):
                counters.append(line.strip())
                continue
            if counters:
                remote = {"remote_storage_hit", "secondary_storage_hit"}.intersection(counters)
                yield _outcome(counters), bool(remote)
            counters = []


def _outcome(counters: Sequence[str]) -> str:
    if _HITS.intersection(counters):
        return "hit"
    if "cache_miss" in counters:
        # A list of included files was found for this source, and none of its versions is that of today.
        known = any(name.endswith("_storage_read_hit") for name in counters)
        return "changed" if known else "new"
    return next((name for name in counters if not _DETAILS.fullmatch(name)), "internal_error")


def rows(records: Sequence[StepRecord], build: Path) -> list[dict[str, Any]]:
    """Return the counts of each step that compiled, in its last attempt.

    ``build`` is the folder of the workspace that has the logs.
    """
    steps, found = {record.step for record in records}, []
    for record in records:
        component, _, what = record.step.partition(".")
        # An editable install compiles in the step that installs.
        if what != ("wheel" if f"{component}.wheel" in steps else "install"):
            continue
        if families := counts_of(logs_of(component, build)):
            found.append({"step": record.step, "program": "ccache", "families": plain(families)})
    return found


def logs_of(component: str, build: Path) -> tuple[tuple[Family, Path], ...]:
    """Return where the calls of each family are logged."""
    families: tuple[tuple[Family, str], ...] = (("C++", "cxx"), ("SYCL", "sycl"))
    return tuple((family, build / f"{component}.ccache-{name}.log") for family, name in families)
