"""A compile cache as a plan uses it, and its counts as documents have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from xpubuild.frozen import frozen

Kind = Literal["ccache", "sccache"]
#: What --compile-cache accepts; auto is the first of ``Kind`` that is installed.
Wanted = Literal["auto", "ccache", "sccache", "none"]
Family = Literal["C++", "SYCL", "link", "AOT"]


@frozen
class CompileCache:
    """The program, and what it is told beside what the plan knows (workspace, component).

    ``hashed`` are files that decide what the host compiler makes, beside the compiler itself; ``sycl_hashed``
    are those of the SYCL compiler. ``launched`` is False where CC and CXX lead to the program already.
    ``sloppiness`` is what the user's own configuration of ccache has.
    """

    kind: Kind
    path: str
    environment: Mapping[str, str] = field(default_factory=dict)
    hashed: tuple[str, ...] = ()
    sycl_hashed: tuple[str, ...] = ()
    sloppiness: str = ""
    launched: bool = True
    place: str = ""
    """Where objects are kept, for people."""


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
    program: Kind
    families: tuple[FamilyCounts, ...]
