"""Finds the few lines of a block that any rule could be interested in, by literals alone."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

# Words that many literals contain; looking for these alone finds the lines of all of them.
_STEMS = ("error", "not ", "fail", "undefined", "no s", "unable", "unknown", "timed out")
_FLAG = b"error"
_FILE = b"exception"
_SWITCH, _NO_SWITCH = b"-w", b"-wno-"
_SUFFIXES = (b".h", b".c", b"s.h", b"s.c")
# "ErrorReport.cpp", not "errors" and not "ERROR_DEVICE_LOST".
_NAME = frozenset(b"abcdefghijklmnopqrtuvwxyz")
# Lines that only say what is built and how, of which most of a long log consists. Of commands their options
# count, as long as nothing is told after a colon.
COMPILERS = rb"(?:\S{1,200}/)?(?:cc|c\+\+|g\+\+|gcc|clang|clang\+\+|icx|icpx|ccache|sccache)(?:-\d{1,2})? "
OPTION = "use_"
_REST = rb"[^\n:]*(?::(?! )[^\n:]*)*"
_STEP = rb"\n(?:\[\d{1,7}/\d{1,7}\] (?:[A-Z]|%b)|%b)%b" % (COMPILERS, COMPILERS, _REST)
_STEPS = re.compile(rb"%b(?:%b)*(?=\n)" % (_STEP, _STEP))


@functools.cache
def trigger(literal: str) -> str:
    """Return what a line with this literal is found by."""
    return next((stem for stem in _STEMS if stem in literal), literal)


@functools.lru_cache(maxsize=64)
def smallest(literals: frozenset[str]) -> tuple[str, ...]:
    """Return the literals that contain no other one: who finds these finds all."""
    kept: list[str] = []
    for text in sorted(literals, key=lambda item: (len(item), item)):
        if not any(other in text for other in kept):
            kept.append(text)
    return tuple(kept)


class Prefilter:
    """Looks for literals in bytes; ``bytes.find`` is faster than any pattern with alternatives."""

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = smallest(frozenset(map(trigger, literals)))
        self._needles = [(text, text.encode()) for text in self.literals]
        self._options = [needle for text, needle in self._needles if OPTION in text]

    def hits(self, block: bytes, start: int, end: int) -> list[tuple[int, str]]:
        """Return (position, literal), in order, between ``start``, where a line begins, and ``end``."""
        parts = list(self._without_steps(block, start, end))
        low = b"".join(block[first:last] for first, last in parts).lower()
        found: list[tuple[int, str]] = []
        for text, needle in self._needles:
            place = low.find(needle)
            while place >= 0:
                if not (
                    (needle == _FLAG and not _is_word(low, place))
                    or (needle == _FILE and low.startswith(_SUFFIXES, place + len(_FILE)))
                ):
                    found.append((place, text))
                place = low.find(needle, place + len(needle))
        return list(_placed(sorted(found), parts))

    def _without_steps(self, block: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of a block between the lines that are no error, whatever words they have."""
        for steps in _STEPS.finditer(block, start, end):
            low = steps.group().lower()
            if not any(needle in low for needle in self._options):
                yield start, steps.start()
                start = steps.end()
        yield start, end


def _placed(found: Iterable[tuple[int, str]], parts: Sequence[tuple[int, int]]) -> Iterator[tuple[int, str]]:
    """Yield what was found in the joined parts with its place in the block."""
    number, passed = 0, 0
    for place, text in found:
        while place - passed >= parts[number][1] - parts[number][0]:
            passed += parts[number][1] - parts[number][0]
            number += 1
        yield parts[number][0] + place - passed, text


def _is_word(low: bytes, place: int) -> bool:
    """Whether "error" is no part of a name, nor of -Werror or -Wno-error, of which command lines are full."""
    after = place + len(_FLAG)
    return (
        low[max(place - 2, 0) : place] != _SWITCH
        and low[max(place - 5, 0) : place] != _NO_SWITCH
        and (after >= len(low) or low[after] not in _NAME)
    )
