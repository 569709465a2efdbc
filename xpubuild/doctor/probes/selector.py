"""What ONEAPI_DEVICE_SELECTOR lets a SYCL program see of the Level Zero GPUs.

Grammar and rules: github.com/intel/llvm, sycl/doc/EnvironmentVariables.md. Terms are separated by ';', each
is ``backend:devices``; one that begins with '!' takes devices away, and where only such terms stand,
everything else stays. Names are not case-sensitive. ``level_zero:0.1`` makes a tile a device of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.doctor.kit import Look
from xpubuild.frozen import frozen

SELECTOR = "ONEAPI_DEVICE_SELECTOR"
_BACKENDS = frozenset({"*", "level_zero", "opencl", "cuda", "hip", "native_cpu", "offload"})
_KINDS = frozenset({"*", "gpu", "cpu", "fpga", "npu", "acc"})
_DEVICE = re.compile(r"(?P<root>\*|gpu|cpu|fpga|npu|acc|\d+)(?:\.(?P<sub>\*|\d+))?(?:\.(?:\*|\d+))?")


class SelectorError(ValueError):
    """The value does not follow the grammar: SYCL programs end with an exception at their first device."""


@frozen
class _Filter:
    away: bool
    devices: tuple[tuple[str, str | None], ...]

    def takes(self, index: int) -> bool:
        """Whether Level Zero GPU number ``index``, as a whole, is meant."""
        return any(sub is None and root in ("*", "gpu", str(index)) for root, sub in self.devices)

    def tiles(self, index: int, count: int) -> int:
        """Return how many tiles of the GPU become devices."""
        wanted = {sub for root, sub in self.devices if sub is not None and root in ("*", "gpu", str(index))}
        return count if "*" in wanted else sum(1 for tile in range(count) if str(tile) in wanted)


def visible(value: str, tiles: Sequence[int]) -> int:
    """Return how many Level Zero GPU devices a SYCL program sees.

    ``tiles`` holds, for each device of Level Zero, how many sub-devices it has.

    Raises:
        SelectorError: the value does not follow the grammar.
    """
    filters = _filters(value)
    left = set(whole(value, len(tiles)))
    seen = len(left)
    for index, count in enumerate(tiles):
        if not any(item.takes(index) for item in filters if item.away):
            seen += max((item.tiles(index, count) for item in filters if not item.away), default=0)
    return seen


def seen_by_sycl(look: Look, devices: Sequence[Mapping[str, Any]]) -> int:
    """Return how many of these devices of Level Zero a SYCL program sees; all where the selector is none."""
    try:
        return visible(look.environ.get(SELECTOR, ""), [len(item.get("tiles", ())) for item in devices])
    except SelectorError:
        return len(devices)


def whole(value: str, devices: int) -> tuple[int, ...]:
    """Return the numbers of the Level Zero GPU devices that a SYCL program sees as a whole.

    Raises:
        SelectorError: the value does not follow the grammar.
    """
    filters = _filters(value)
    accept = [item for item in filters if not item.away]

    def seen(index: int) -> bool:
        away = any(item.takes(index) for item in filters if item.away)
        return not away and (not accept or any(item.takes(index) for item in accept))

    return tuple(filter(seen, range(devices)))


def _filters(value: str) -> list[_Filter]:
    """Return the terms; one for another backend takes no device of Level Zero."""
    found = []
    for term in filter(str.strip, value.split(";")):
        text = term.strip().lower()
        backend, colon, devices = text.removeprefix("!").partition(":")
        if backend not in _BACKENDS or not colon:
            known = ", ".join(sorted(_BACKENDS))
            raise SelectorError(f"'{term}' does not start with a backend and a colon ({known})")
        chosen = tuple(map(_device, devices.split(",")))
        found.append(_Filter(text.startswith("!"), chosen if backend in ("*", "level_zero") else ()))
    return found


def _device(item: str) -> tuple[str, str | None]:
    match = _DEVICE.fullmatch(item.strip())
    if match is None:
        raise SelectorError(f"'{item}' is neither a number nor one of {', '.join(sorted(_KINDS))}")
    return match["root"], match["sub"]
