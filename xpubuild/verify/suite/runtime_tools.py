"""What inductor and triton use while a program runs: a C++ compiler and headers."""

from __future__ import annotations

import os
import shutil
import sysconfig
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_DEADLINE_S = 120.0


def compiler() -> str | None:
    """Return the C++ compiler that inductor uses: CXX, or the first on PATH from its list."""
    named = os.environ.get("CXX")
    return next(
        (found for name in (named, "g++", "clang++", "icpx") if name and (found := shutil.which(name))), None
    )


def python_include() -> str:
    """Return the folder in which extensions of this interpreter look for Python.h."""
    return sysconfig.get_paths()["include"]


def _folders(torch: Any) -> list[str]:
    """Return the include folders that torch adds itself, and those of pip's oneAPI packages."""
    found = [python_include(), str(Path(torch.__file__).parent / "include")]
    prefix = Path(sysconfig.get_paths()["data"])
    found += [str(folder) for folder in (prefix / "include", prefix / "include" / "sycl") if folder.is_dir()]
    for root in (os.environ.get("CMPLR_ROOT"), os.environ.get("SYCL_ROOT")):
        if root:
            found.append(str(Path(root) / "include"))
    return found


def missing_headers(program: str, headers: Iterable[str], torch: Any) -> list[str]:
    """Return the headers that the compiler does not find; each is tried alone and only preprocessed."""
    from .children import run_beside

    missing = []
    with tempfile.TemporaryDirectory(prefix="headers-") as name:
        folder = Path(name)
        source = folder / "one.cpp"
        for header in headers:
            source.write_text(f"#if !__has_include(<{header}>)\n#error not there\n#endif\n", "utf-8")
            words = [word for path in _folders(torch) for word in ("-isystem", path)]
            command = [program, "-std=c++17", "-E", "-o", os.devnull, *words, str(source)]
            if not run_beside([command], deadline_s=_DEADLINE_S, folder=folder)[0].ok:
                missing.append(header)
    return missing
