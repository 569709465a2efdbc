"""Finds the few lines of a block that any rule could be interested in, by literals alone."""

from __future__ import annotations

import functools
from collections.abc import Iterable

# Words that many literals contain; looking for these alone finds the lines of all of them.
_STEMS = ("error", "not ", "fail", "undefined", "no s", "unable", "unknown", "timed out")
_FLAG = b"error"
_FILE = b"exception"
_SWITCH, _NO_SWITCH = b"-w", b"-wno-"
_SUFFIXES = (b".h", b".c", b"s.h", b"s.c")
# "ErrorReport.cpp", not "errors" and not "ERROR_DEVICE_LOST".
_NAME = frozenset(b"abcdefghijklmnopqrtuvwxyz")


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

    def hits(self, block: bytes, start: int, end: int) -> list[tuple[int, str]]:
        """Return (position, literal), in order, between ``start``, where a line begins, and ``end``."""
        low = block[start:end].lower()
        found: list[tuple[int, str]] = []
        for text, needle in self._needles:
            place = low.find(needle)
            while place >= 0:
                if not (
                    (needle == _FLAG and not _is_word(low, place))
                    or (needle == _FILE and low.startswith(_SUFFIXES, place + len(_FILE)))
                ):
                    found.append((start + place, text))
                place = low.find(needle, place + len(needle))
        return sorted(found)


def _is_word(low: bytes, place: int) -> bool:
    """Whether "error" is no part of a name, nor of -Werror or -Wno-error, of which command lines are full."""
    after = place + len(_FLAG)
    return (
        low[max(place - 2, 0) : place] != _SWITCH
        and low[max(place - 5, 0) : place] != _NO_SWITCH
        and (after >= len(low) or low[after] not in _NAME)
    )
