"""What Level Zero enumerates, in the caller's environment and without its masks; what a selector leaves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.probes.children import Ending, script
from xpubuild.frozen import frozen

MASK = "ZE_AFFINITY_MASK"
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"
GPU = 1  # ZE_DEVICE_TYPE_GPU
UNINITIALIZED = 0x78000001
#: ze_result_t (ze_api.h); those that enumeration is known to return.
RESULTS = {
    0x70000001: "ZE_RESULT_ERROR_DEVICE_LOST",
    0x70000002: "ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY",
    0x70000003: "ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
    0x70000006: "ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET",
    0x70000007: "ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE",
    0x70010000: "ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS",
    0x70010001: "ZE_RESULT_ERROR_NOT_AVAILABLE",
    0x70020000: "ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE",
    UNINITIALIZED: "ZE_RESULT_ERROR_UNINITIALIZED",
    0x78000002: "ZE_RESULT_ERROR_UNSUPPORTED_VERSION",
    0x78000003: "ZE_RESULT_ERROR_UNSUPPORTED_FEATURE",
    0x78000004: "ZE_RESULT_ERROR_INVALID_ARGUMENT",
    0x7FFFFFFE: "ZE_RESULT_ERROR_UNKNOWN",
}


@frozen
class Enumeration:
    """One enumeration; ``code`` is the result of zeInit or a later call, None if none returned."""

    ending: Ending

    @property
    def load_error(self) -> str:
        """The error of dlopen, or an empty text."""
        return str(self.ending.value("load_error", ""))

    @property
    def code(self) -> int | None:
        """The result code that ended it, 0 for success, None if there was no result."""
        value = self.ending.value("error") or self.ending.value("init")
        return int(value) if value is not None else None

    @property
    def good(self) -> bool:
        """Whether it completed."""
        return self.ending.how == "ok" and bool(self.ending.value("done"))

    @property
    def libraries(self) -> tuple[str, ...]:
        """Files of loader, drivers and C++ library that the child had mapped."""
        return tuple(map(str, self.ending.value("libraries", ())))

    @property
    def drivers(self) -> tuple[dict[str, Any], ...]:
        """Each driver with its API version and devices."""
        return tuple(record["driver"] for record in self.ending.records if "driver" in record)

    @property
    def gpus(self) -> tuple[dict[str, Any], ...]:
        """The devices that are GPUs, of all drivers."""
        return tuple(
            device for driver in self.drivers for device in driver["devices"] if device["type"] == GPU
        )

    @property
    def loader_version(self) -> str:
        """The loader's own version as it states it, or by its file name, or an empty text."""
        stated = str(self.ending.value("version", ""))
        path = next((path for path in self.libraries if "libze_loader.so." in path), "")
        return stated or path.rpartition("libze_loader.so.")[2]

    @property
    def loader_spec(self) -> str:
        """The version of the specification that the loader knows, or an empty text."""
        return str(self.ending.value("spec", ""))

    def library(self, part: str) -> str:
        """Return the mapped file whose name contains ``part``, or an empty text."""
        return next((path for path in self.libraries if part in path.rpartition("/")[2]), "")


@once
def enumeration(look: Look) -> Enumeration:
    """Enumerate as a program of the caller would."""
    return Enumeration(script(look, "level_zero_child.py"))


@once
def unmasked(look: Look) -> Enumeration:
    """Enumerate without ZE_AFFINITY_MASK, which is how the driver itself is tested."""
    if not look.environ.get(MASK):
        return enumeration(look)
    environ = {name: value for name, value in look.environ.items() if name != MASK}
    return Enumeration(script(look, "level_zero_child.py", environ))


def result_name(code: int) -> str:
    """Return the name of a result code with its number."""
    return f"{RESULTS.get(code, 'result')} ({code:#010x})"


# What ONEAPI_DEVICE_SELECTOR lets a SYCL program see of the GPUs. Grammar and rules: github.com/intel/llvm,
# sycl/doc/EnvironmentVariables.md. Terms are separated by ';', each is ``backend:devices``; one that begins
# with '!' takes devices away, and where only such terms stand, everything else stays. Names are not
# case-sensitive. ``level_zero:0.1`` makes a tile a device of its own.

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
