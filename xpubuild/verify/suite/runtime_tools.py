"""What inductor and triton use while a program runs: a C++ compiler, headers, and folders to cache in."""

from __future__ import annotations

import contextlib
import getpass
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
    from .children import run_one

    missing = []
    with tempfile.TemporaryDirectory(prefix="headers-") as name:
        folder = Path(name)
        source = folder / "one.cpp"
        for header in headers:
            source.write_text(f"#if !__has_include(<{header}>)\n#error not there\n#endif\n", "utf-8")
            words = [word for path in _folders(torch) for word in ("-isystem", path)]
            command = [program, "-std=c++17", "-E", "-o", os.devnull, *words, str(source)]
            if not run_one(command, deadline_s=_DEADLINE_S, folder=folder).ok:
                missing.append(header)
    return missing


def cache_folders() -> dict[str, tuple[Path, Path | None]]:
    """Return, by compiler, the folder it caches in and the one that this environment names."""
    # Asked for its folder, inductor sets the variable where it was not.
    named = _named("TORCHINDUCTOR_CACHE_DIR")
    found = {"inductor": (_inductor(), named)}
    try:
        import triton

        holder: Any = getattr(getattr(triton, "knobs", None), "cache", None)
        named = _named("TRITON_CACHE_DIR")
        folder = Path(holder.dir) if holder is not None else named or Path.home() / ".triton" / "cache"
        found["triton"] = (folder, named)
    except ImportError:
        pass
    return found


def _inductor() -> Path:
    try:
        from torch._inductor.runtime.cache_dir_utils import cache_dir
    except ImportError:  # before torch 2.7
        from torch._inductor.runtime.runtime_utils import cache_dir
    return Path(cache_dir())


def _named(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


def stale_caches() -> list[tuple[Path, int]]:
    """Return the user's shared cache folders that are not empty, with the number of compiled files."""
    shared = [Path.home() / ".triton" / "cache"]
    with contextlib.suppress(KeyError, OSError):  # a user without a name
        shared.append(Path("/tmp") / f"torchinductor_{getpass.getuser()}")  # noqa: S108 - inductor's default
    own = {path for _, path in cache_folders().values()}
    counted = [(folder, _compiled(folder)) for folder in shared if folder not in own and folder.is_dir()]
    return [(folder, number) for folder, number in counted if number]


def _compiled(folder: Path) -> int:
    return sum(
        1 for _, _, files in os.walk(folder) for name in files if name.endswith((".so", ".cubin", ".spv"))
    )
