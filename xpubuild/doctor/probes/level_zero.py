"""The result of Level Zero's own enumeration, in the caller's environment and without its masks."""

from __future__ import annotations

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
