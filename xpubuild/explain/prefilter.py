"""Finds the few lines of a block that any rule could be interested in, by literals alone."""

from __future__ import annotations

from collections.abc import Iterable

# Words that many literals contain; looking for these alone finds the lines of all of them.
_STEMS = ("error", "not ", "fail", "undefined", "require", "no such", "missing", "unable", "unknown", "timed out")
_FLAG = b"error"
_SWITCH = b"-w"


def smallest(literals: Iterable[str]) -> tuple[str, ...]:
    """Return the literals that contain no other one: who finds these finds all."""
    kept: list[str] = []
    stems = {next((stem for stem in _STEMS if stem in text), text) for text in literals}
    for text in sorted(stems, key=lambda item: (len(item), item)):
        if not any(other in text for other in kept):
            kept.append(text)
    return tuple(kept)


class Prefilter:
    """Looks for literals in bytes; ``bytes.find`` is faster than any pattern with alternatives."""

    def __init__(self, literals: Iterable[str]) -> None:
        self.literals = tuple(text.encode() for text in smallest(literals))

    def hits(self, block: bytes, start: int, end: int) -> list[int]:
        """Return positions in ``block`` from ``start`` to ``end``, ascending."""
        low = block.lower()
        found: set[int] = set()
        for literal in self.literals:
            place = low.find(literal, start, end)
            while place >= 0:
                # -Werror stands in every command line of some projects.
                if literal != _FLAG or low[max(place - 2, 0) : place] != _SWITCH:
                    found.add(place)
                place = low.find(literal, place + len(literal), end)
        return sorted(found)
