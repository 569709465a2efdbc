"""How much of a build each edge of ninja is, by an earlier build of the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from xpubuild.frozen import frozen

#: As many folders above a file name it among those of a build, wherever the build's folder is.
_PARTS = 3
_OUTPUT = re.compile(r"\s-o\s+('[^']+'|\"[^\"]+\"|\S+)")


def edge_key(output: str) -> str:
    """Return what an output is called in any build folder: the end of its path."""
    return "/".join(output.strip("'\"").split("/")[-_PARTS:])


def edge_of(text: str) -> str:
    """Return the key of the edge that ninja tells of in the words behind ``[1/2]``.

    CMake's description ends with the output; ``ninja -v`` prints the command.
    """
    found = _OUTPUT.search(text)
    return edge_key(found[1] if found else text.rstrip().rpartition(" ")[2])


def wall_shares(spans: Sequence[tuple[float, float]]) -> list[float]:
    """Return the share of each span (start, end) in the time that all took together.

    A moment in which several ran counts for each of them by its part, so the last link, which runs alone,
    counts in full. The sum is the time in which anything ran.
    """
    moments = sorted((at, change, number) for number, (start, end) in enumerate(spans)
                     for at, change in ((start, 1), (end, -1)))  # fmt: skip
    found = [0.0] * len(spans)
    # The integral of 1 / (spans that run), at the start of each span that runs.
    passed, before, running = 0.0, 0.0, 0
    for at, change, number in moments:
        if running:
            passed += (at - before) / running
        before = at
        running += change
        found[number] += passed if change < 0 else -passed
    return found


@frozen
class History:
    """Seconds of an earlier build by edge, as ``wall_shares`` counts them."""

    seconds: Mapping[str, float]

    @classmethod
    def of(cls, edges: Iterable[tuple[str, float, float]]) -> History:
        """Return that of a build with these edges: output, start and end in seconds."""
        every = list(edges)
        shares = wall_shares([(start, end) for _, start, end in every])
        found: dict[str, float] = {}
        for (output, _, _), share in zip(every, shares, strict=True):
            found[edge_key(output)] = found.get(edge_key(output), 0.0) + share
        return cls(found)


@dataclass
class Counted:
    """How far a build is: by count, or by what its edges took before where that is known."""

    history: History | None = None
    done: int = 0
    total: int = 0
    _known: dict[str, float] = field(default_factory=dict)

    def finished(self, key: str) -> None:
        """Take the edge that was done last."""
        if self.history is not None and key in self.history.seconds:
            self._known[key] = self.history.seconds[key]

    def fraction(self) -> float:
        """Return how much of the build is done, 0 to 1; 0 where nothing is counted."""
        if self.total <= 0:
            return 0.0
        left = max(0, self.total - self.done)
        if self.history is None or not self._known:
            return self.done / self.total
        mean = sum(self.history.seconds.values()) / len(self.history.seconds)
        over = len(self.history.seconds) - len(self._known)
        # The sums are rounded one by one: what is left of nothing may not be below it.
        rest = max(0.0, sum(self.history.seconds.values()) - sum(self._known.values()))
        # Edges that the earlier build did not have count as usual ones.
        to_come = rest * left / over if left <= over and over else rest + (left - over) * mean
        behind = sum(self._known.values()) + max(0, self.done - len(self._known)) * mean
        return behind / (behind + to_come) if behind + to_come > 0 else self.done / self.total
