"""Asks the SYCL runtime's loader for its adapters and devices, one JSON object a line; run as a script.

Usage: ur_child.py LIBRARY, a libur_loader.so.0 of 0.12 (oneAPI 2025.2) or newer, whose urPlatformGet takes
one adapter. Standard library only. Names and numbers: ur_api.h of the unified runtime in intel/llvm.
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from typing import Any

_BACKENDS = {1: "level_zero", 2: "opencl", 3: "cuda", 4: "hip", 5: "native_cpu", 6: "offload"}
_BACKEND, _PLATFORM_NAME, _ALL = 0, 1, 1
_NAME_BYTES = 256


def _say(**record: Any) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def _handles(call: Any, *first: Any) -> list[ctypes.c_void_p]:
    """Call a function that counts when it gets no array, and fills one when it does."""
    count = ctypes.c_uint32(0)
    if call(*first, ctypes.c_uint32(0), None, ctypes.byref(count)) or not count.value:
        return []
    found = (ctypes.c_void_p * count.value)()
    call(*first, count, found, None)
    return [ctypes.c_void_p(handle) for handle in found]


def _platform(loader: ctypes.CDLL, handle: ctypes.c_void_p) -> dict[str, Any]:
    name = ctypes.create_string_buffer(_NAME_BYTES)
    loader.urPlatformGetInfo(handle, _PLATFORM_NAME, ctypes.c_size_t(_NAME_BYTES), name, None)
    devices = _handles(loader.urDeviceGet, handle, ctypes.c_uint32(_ALL))
    return {"name": name.value.decode("utf-8", "replace"), "devices": len(devices)}


def main() -> None:
    """Print each adapter with its platforms."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _say(stage="dlopen")
    try:
        loader = ctypes.CDLL(sys.argv[1])
    except OSError as error:
        _say(load_error=str(error))
        return
    _say(stage="urLoaderInit")
    loader.urLoaderInit(ctypes.c_uint32(0), None)
    _say(stage="urAdapterGet")
    for adapter in _handles(loader.urAdapterGet):
        backend = ctypes.c_uint32(0)
        loader.urAdapterGetInfo(adapter, _BACKEND, ctypes.c_size_t(4), ctypes.byref(backend), None)
        _say(stage="urPlatformGet")
        platforms = [_platform(loader, handle) for handle in _handles(loader.urPlatformGet, adapter)]
        _say(adapter=_BACKENDS.get(backend.value, str(backend.value)), platforms=platforms)
    _say(done=True)


if __name__ == "__main__":
    main()
