"""A small C++ and SYCL extension of PyTorch: one fused kernel and one call into a static MKL.

Importing it loads the compiled library into the dispatcher; the operators are then
``torch.ops.xpubuild_ops.*`` and the functions here.
"""

from __future__ import annotations

from pathlib import Path

import torch

_PACKAGE_PATH = list(__path__)


def _load(name: str) -> None:
    # An editable install keeps the compiled library in another folder of the package path than this file.
    for folder in _PACKAGE_PATH:
        library = Path(folder) / name
        if library.is_file():
            try:
                torch.ops.load_library(str(library))
            except OSError as error:
                # Newer torch hides the loader's message behind one of its own.
                reason = error.__cause__ or error
                message = f"{name} does not load beside torch {torch.__version__}: {reason}"
                raise ImportError(message) from error
            return
    raise ImportError(f"{name} is not in {', '.join(_PACKAGE_PATH)}: the package is incomplete")


_load("libxpubuild_ops.so")
if torch.ops.xpubuild_ops.build_info()["xpu"] == "1":
    _load("libxpubuild_ops_xpu.so")

# The functions need the operators that the library has just brought.
from xpubuild_ops._functions import build_info, mkl_sgemm, mkl_version, swiglu  # noqa: E402

__all__ = ["build_info", "mkl_sgemm", "mkl_version", "swiglu"]
