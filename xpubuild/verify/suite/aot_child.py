"""Started by ``runtime.no_jit``: runs one kernel after the other and reports which the driver compiled.

Usage: aot_child.py DEVICE. The driver's compiler cache is in NEO_CACHE_DIR, empty at the start.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Of OpenCL and of Level Zero: programmers-guide/COMPILER_CACHE.md of intel/compute-runtime. The driver's
#: ``config.file`` beside them has the size of the folder.
COMPILED = (".cl_cache", ".l0_cache")
MARK = "\x1e"


def compiled(folder: Path) -> set[str]:
    """Return the names of what the driver compiled and kept."""
    return {path.name for path in folder.rglob("*") if path.suffix in COMPILED}


def kernels(torch: Any, device: str) -> dict[str, Callable[[], Any]]:
    """Return calls that run a kernel: of different libraries of torch-xpu-ops, and of each extension."""
    values = torch.arange(4096, dtype=torch.float32).to(device).reshape(64, 64)
    whole = torch.arange(4096, dtype=torch.int32).to(device)
    calls = {
        "add": lambda: whole + whole,
        "abs": values.abs,
        "sum": lambda: values.sum(dim=1),
        "softmax": lambda: torch.softmax(values, dim=1),
        "sort": whole.sort,
        "index": lambda: values[whole[:8].long() % 64],
        "random": lambda: torch.rand(64, device=device),
        "cat": lambda: torch.cat((whole, whole)),
    }
    if importlib.util.find_spec("xpubuild_ops") is not None:
        import xpubuild_ops

        if xpubuild_ops.build_info()["xpu"]:
            calls["xpubuild_ops"] = lambda: xpubuild_ops.swiglu(values, values)
    return calls


def main(device: str) -> None:
    """Print, for each kernel, how many programs the driver compiled for it."""
    import torch

    folder = Path(os.environ["NEO_CACHE_DIR"])
    found: dict[str, int] = {}
    known = compiled(folder)
    for name, call in kernels(torch, device).items():
        call()
        getattr(torch, device.partition(":")[0]).synchronize()
        now = compiled(folder)
        found[name] = len(now - known)
        known = now
    sys.stdout.write(MARK + json.dumps(found) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
