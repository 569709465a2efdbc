"""Finds the few lines of a block that any rule could be interested in, by literals alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from itertools import accumulate

# Words that many literals contain; looking for these alone finds the lines of all of them.
_STEMS = ("error", "not ", "fail", "undefined", "no s", "unable", "unknown", "timed out")
#: What "error" is the end of on the command lines of compilers.
_FLAG, _SWITCHES = b"error", (b"-w", b"-wno-")
# Lines that only say what is built and how, of which most of a long log consists, as long as nothing is told
# after a colon.
_COMPILERS = rb"(?:\S{1,200}/)?(?:cc|c\+\+|g\+\+|gcc|clang|clang\+\+|icx|icpx|ccache|sccache)(?:-\d{1,2})? "
_STEPS = re.compile(
    rb"^(?:(?:\[\d{1,7}/\d{1,7}\] (?:[A-Z]|%b)|%b)[^\n:]*(?::(?! )[^\n:]*)*(?:\n|\Z))+"
    % (_COMPILERS, _COMPILERS),
    re.MULTILINE,
)


@functools.lru_cache(maxsize=64)
def smallest(literals: frozenset[str]) -> tuple[bytes, ...]:
    """Return what finds the lines of all literals: stems of them, and none that contains another one."""
    triggers = {next((stem for stem in _STEMS if stem in text), text) for text in literals}
    kept: list[str] = []
    for text in sorted(triggers, key=lambda item: (len(item), item)):
        if not any(other in text for other in kept):
            kept.append(text)
    return tuple(text.encode() for text in kept)


class Prefilter:
    """Looks for literals in bytes; ``bytes.find`` is faster than any pattern with alternatives."""

    def __init__(self, literals: Iterable[str]) -> None:
        self._needles = smallest(frozenset(literals))

    def lines(self, block: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield beginning and end of each line with a literal, from ``start``, where a line begins."""
        part = block[start:end]
        low = _STEPS.sub(lambda steps: b"\n" * steps.group().count(b"\n"), part).lower()
        found = set[int]()
        for needle in self._needles:
            place = low.find(needle)
            while place >= 0:
                after = place + len(needle)
                if needle != _FLAG or not low.endswith(_SWITCHES, max(place - 5, 0), place):
                    found.add(low.rfind(b"\n", 0, place) + 1)
                    after = low.find(b"\n", place)
                place = low.find(needle, after) if after >= 0 else -1
        starts = [*accumulate((len(line) + 1 for line in part.split(b"\n")), initial=start)]
        number, counted = 0, 0
        for first in sorted(found):
            number += low.count(b"\n", counted, first)
            counted = first
            yield starts[number], starts[number + 1] - 1
