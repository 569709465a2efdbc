"""Enumerates Level Zero devices and prints what it finds, a JSON object a line; run as a script.

Standard library only. The driver is code that may crash or hang, so every stage is announced before it
begins: the last one announced is where it ended. Structures and numbers are those of the specification
(github.com/oneapi-src/level-zero, include/ze_api.h and include/loader/ze_loader.h), which keeps them stable.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from collections.abc import Callable
from typing import Any

LOADER = "libze_loader.so.1"
#: Functions that adapters of newer SYCL runtimes call without asking whether they are there.
NEWER = ("zeInitDrivers", "zeDeviceGetRootDevice")
_LIBRARIES = ("libze_", "libstdc++.so", "libze-")
_U32, _U64, _I64 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int64
_PROPERTIES, _DRIVER_PROPERTIES, _MEMORY, _PCI = 0x3, 0x1, 0x7, 0x10008
_MAX_HANDLES = 1024

Handle = ctypes.c_void_p


class _LoaderVersion(ctypes.Structure):
    _fields_ = (
        ("component", ctypes.c_char * 64),
        ("spec", _U32),
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
    )


class _DriverProperties(ctypes.Structure):
    _fields_ = (("stype", _U32), ("next", Handle), ("uuid", ctypes.c_uint8 * 16), ("version", _U32))


class _DeviceProperties(ctypes.Structure):
    _fields_ = (
        ("stype", _U32), ("next", Handle), ("type", _U32), ("vendor", _U32), ("device", _U32),
        ("flags", _U32), ("subdevice", _U32), ("clock", _U32), ("max_alloc", _U64), ("numbers", _U32 * 7),
        ("timer_resolution", _U64), ("valid_bits", _U32 * 2), ("uuid", ctypes.c_uint8 * 16),
        ("name", ctypes.c_char * 256),
    )  # fmt: skip


class _MemoryProperties(ctypes.Structure):
    _fields_ = (
        ("stype", _U32), ("next", Handle), ("flags", _U32), ("clock", _U32), ("bus", _U32), ("total", _U64),
        ("name", ctypes.c_char * 256),
    )  # fmt: skip


class _PciProperties(ctypes.Structure):
    _fields_ = (
        ("stype", _U32), ("next", Handle), ("address", _U32 * 4), ("generation", ctypes.c_int32),
        ("width", ctypes.c_int32), ("bandwidth", _I64),
    )  # fmt: skip


def _say(**record: Any) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def _version(number: int) -> str:
    return f"{number >> 16}.{number & 0xFFFF}"


def _mapped() -> list[str]:
    """Return the files of the libraries that matter, as this process has them mapped."""
    found = {}
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123 - starts faster
        for line in lines:
            path = line.rstrip("\n").partition("/")[2]
            if any(f"/{name}" in f"/{path}" for name in _LIBRARIES):
                found["/" + path] = True
    return list(found)


def _handles(call: Callable[..., int], *before: Any) -> list[int]:
    """Return the handles that one of the count-then-fill functions gives; raises OSError with the code."""
    count = _U32(0)
    _checked(call(*before, ctypes.byref(count), None))
    number = min(count.value, _MAX_HANDLES)
    if number == 0:
        return []
    count, array = _U32(number), (Handle * number)()
    _checked(call(*before, ctypes.byref(count), array))
    return [handle for handle in array[: count.value] if handle is not None]


def _checked(code: int) -> None:
    if code:
        raise OSError(code & 0xFFFFFFFF, f"{code & 0xFFFFFFFF:#010x}")


def _device(loader: ctypes.CDLL, handle: int, *, whole: bool = True) -> dict[str, Any]:
    properties = _DeviceProperties(stype=_PROPERTIES)
    _checked(loader.zeDeviceGetProperties(Handle(handle), ctypes.byref(properties)))
    count, memory = _U32(1), _MemoryProperties(stype=_MEMORY)
    known = not loader.zeDeviceGetMemoryProperties(Handle(handle), ctypes.byref(count), ctypes.byref(memory))
    record: dict[str, Any] = {
        "name": properties.name.decode("utf-8", "replace"),
        "type": properties.type,
        "vendor_id": f"{properties.vendor:#06x}",
        "device_id": f"{properties.device:#06x}",
        "integrated": bool(properties.flags & 1),
        "subdevice": properties.subdevice if properties.flags & 2 else None,
        "memory_bytes": memory.total if known and count.value else None,
        "max_allocation_bytes": properties.max_alloc or None,
        "uuid": bytes(properties.uuid).hex(),
        "pci_address": _pci(loader, handle),
    }
    if whole:
        subs = _handles(loader.zeDeviceGetSubDevices, Handle(handle))
        record["tiles"] = [_device(loader, sub, whole=False) for sub in subs]
    return record


def _pci(loader: ctypes.CDLL, handle: int) -> str | None:
    properties = _PciProperties(stype=_PCI)
    call = getattr(loader, "zeDevicePciGetPropertiesExt", None)
    if call is None or call(Handle(handle), ctypes.byref(properties)):
        return None
    domain, bus, device, function = properties.address
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def _driver(loader: ctypes.CDLL, handle: int) -> dict[str, Any]:
    number = _U32(0)
    _checked(loader.zeDriverGetApiVersion(Handle(handle), ctypes.byref(number)))
    properties = _DriverProperties(stype=_DRIVER_PROPERTIES)
    known = not loader.zeDriverGetProperties(Handle(handle), ctypes.byref(properties))
    _say(stage="zeDeviceGet")
    handles = _handles(loader.zeDeviceGet, Handle(handle))
    _say(stage="zeDeviceGetProperties")
    return {
        "api": _version(number.value),
        "version": properties.version if known else None,
        "devices": [_device(loader, device) for device in handles],
    }


def _loader_versions(loader: ctypes.CDLL) -> dict[str, Any]:
    call = getattr(loader, "zelLoaderGetVersions", None)
    count = ctypes.c_size_t(0)
    if call is None or call(ctypes.byref(count), None) or not 0 < count.value < _MAX_HANDLES:
        return {}
    array = (_LoaderVersion * count.value)()
    if call(ctypes.byref(count), array):
        return {}
    own = next((item for item in array if item.component == b"loader"), array[0])
    return {"version": f"{own.major}.{own.minor}.{own.patch}", "spec": _version(own.spec)}


def main() -> None:
    """Enumerate, one announced stage after the other."""
    # Python's own handler waits for the driver to return, which one that hangs does not do.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _say(stage="dlopen")
    try:
        loader = ctypes.CDLL(LOADER)
    except OSError as error:
        _say(load_error=str(error))
        return
    _say(libraries=_mapped(), lacks=[name for name in NEWER if not hasattr(loader, name)])
    _say(stage="zeInit")
    code = loader.zeInit(0) & 0xFFFFFFFF
    _say(init=code, libraries=_mapped(), **_loader_versions(loader))
    if code:
        return
    try:
        _say(stage="zeDriverGet")
        for handle in _handles(loader.zeDriverGet):
            _say(driver=_driver(loader, handle))
    except OSError as error:
        _say(error=error.errno)
        return
    _say(done=True)


if __name__ == "__main__":
    main()
