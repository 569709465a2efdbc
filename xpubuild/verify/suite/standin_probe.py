"""Says which SYCL runtime the torch of this interpreter loads, as a line of JSON, without importing torch.

Run as a script by ``standin.py``: what it loads may crash.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any


def look() -> dict[str, Any]:
    """Return the version of torch, the path of the libsycl that it loads, or why there is none."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.origin:
        return {"torch": None}
    found: dict[str, Any] = {"torch": _version(), "prefix": sys.prefix, "xpu": False}
    library = Path(spec.origin).parent / "lib" / "libc10_xpu.so"
    if not library.is_file():
        return found
    found["xpu"] = True
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        return {**found, "error": str(error)}
    lines = Path("/proc/self/maps").read_text("utf-8").splitlines()
    mapped = [line.split(maxsplit=5)[-1] for line in lines]
    paths = [path for path in mapped if "/libsycl.so" in path or "/libsycl-preview.so" in path]
    return {**found, "libsycl": paths[0] if paths else None}


def _version() -> str:
    try:
        return importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        return "of an unknown version"


if __name__ == "__main__":
    sys.stdout.write(json.dumps(look()) + "\n")
