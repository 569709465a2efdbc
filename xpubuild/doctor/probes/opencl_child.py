"""Counts Intel's GPUs in OpenCL and prints them, one JSON object a line; run as a script.

Standard library only. Names and numbers: the OpenCL specification (CL/cl.h).
"""

from __future__ import annotations

import ctypes
import json
import signal
import sys
from typing import Any

_GPU, _NAME, _VENDOR_ID = 1 << 2, 0x102B, 0x1001
_INTEL = 0x8086


def _say(**record: Any) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


def _devices(opencl: ctypes.CDLL, platform: int) -> list[str]:
    count = ctypes.c_uint32(0)
    if opencl.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_uint64(_GPU), 0, None, ctypes.byref(count)):
        return []
    devices = (ctypes.c_void_p * count.value)()
    opencl.clGetDeviceIDs(ctypes.c_void_p(platform), ctypes.c_uint64(_GPU), count, devices, None)
    names = []
    for device in devices:
        name, vendor = ctypes.create_string_buffer(256), ctypes.c_uint32(0)
        handle = ctypes.c_void_p(device)
        opencl.clGetDeviceInfo(handle, _VENDOR_ID, ctypes.c_size_t(4), ctypes.byref(vendor), None)
        opencl.clGetDeviceInfo(handle, _NAME, ctypes.c_size_t(256), name, None)
        if vendor.value == _INTEL:
            names.append(name.value.decode("utf-8", "replace"))
    return names


def main() -> None:
    """List the GPUs of every platform."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _say(stage="dlopen")
    try:
        opencl = ctypes.CDLL("libOpenCL.so.1")
    except OSError as error:
        _say(load_error=str(error))
        return
    _say(stage="clGetPlatformIDs")
    count = ctypes.c_uint32(0)
    code = opencl.clGetPlatformIDs(0, None, ctypes.byref(count))
    platforms = (ctypes.c_void_p * count.value)()
    if not code and count.value:
        opencl.clGetPlatformIDs(count, platforms, None)
    _say(stage="clGetDeviceIDs")
    found = [name for platform in platforms if platform for name in _devices(opencl, platform)]
    _say(platforms=count.value, gpus=found, done=True)


if __name__ == "__main__":
    main()
