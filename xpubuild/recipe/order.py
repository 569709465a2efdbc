"""The order in which recipes and releases are shown: releases as versions, other names after them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

_NUMBERS = re.compile(r"(\d+)")
#: What a name is compared by; a name that is no version is taken apart into its numbers and the rest.
Order = tuple[int, Version, tuple[tuple[int, int, str], ...]]
_NONE = Version("0")


def in_order(names: Iterable[str]) -> list[str]:
    """Return names sorted as people count: 2.4, 2.9, 2.10rc1, 2.10, then main, step9, step10."""
    return sorted(names, key=order_of)


def order_of(name: str) -> Order:
    """Return what a name is sorted by."""
    try:
        return (0, Version(name), ())
    except InvalidVersion:
        parts = [part for part in _NUMBERS.split(name) if part]
        words = tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)
        return (1, _NONE, words)
