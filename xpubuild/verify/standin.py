"""The stand-in for a GPU: the environment in which torch's XPU is Intel's OpenCL CPU device.

``standin.cpp`` is an adapter for oneAPI's Unified Runtime. It is compiled at its first use, against the
headers of the SYCL runtime that torch loads, and is loaded only by a process whose environment was made here.
The name of its device says what it is.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from xpubuild.engine.files import explained, fsync_dir
from xpubuild.engine.process import query
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import ToolchainError, UsageError
from xpubuild.frozen import frozen
from xpubuild.resources import suite_dir

#: Part of the device's name, by which a report knows it.
MARK = "(stand-in on the CPU)"
#: Checks take this many times as long: kernels are compiled for the CPU at their first launch.
SLOWER = 20

#: Patterns of checks that would prove nothing about a GPU, or nothing about the device, and why.
NOT_PROVED = (
    (("onednn.*", "aten.matmul_*", "operators.linear", "operators.algebra", "operators.convolve"),
     "oneDNN's operators are computed on the CPU"),
    (("compile.*", "*.compile", "model.resnet50_compile"), "kernels of Triton need a GPU"),
    (("distributed.all_reduce", "distributed.nodes"), "XCCL needs Level Zero"),
    (("profiler.*",), "the profiler needs Level Zero"),
    (("runtime.no_jit",), "native code for a GPU does not run"),
    (("speed.*",), "its speed is that of the CPU"),
    (("runtime.out_of_memory", "aten.large"), "its memory is this machine's"),
)  # fmt: skip

_SOURCE = Path(__file__).with_name("standin.cpp")
_HEADERS = ("ur_api.h", "ur_ddi.h")
_OPENCL = "libintelocl.so"
#: Where the adapter for OpenCL is: a library of its own up to 2026.1, inside of the loader's in 2026.2.
_INNER = ("libur_adapter_opencl.so.0", "libur_loader.so.0")
_LINES = {"7": "2024", "8": "2025", "9": "2026"}
_COMPILE_S = 300.0


@frozen
class Runtime:
    """The SYCL runtime that a torch loads, with what the stand-in takes from it."""

    libsycl: Path
    headers: Path
    inner: Path
    opencl: Path


def environment(python: Path, env: Mapping[str, str], cache: Path) -> dict[str, str]:
    """Return ``env`` with the stand-in for the torch of an interpreter; compiles the adapter where it has to.

    Args:
        python: the interpreter with torch.
        env: its complete environment.
        cache: the cache folder of xpubuild.

    Raises:
        UsageError: there is no torch, or it is not for XPU.
        ToolchainError: the SYCL runtime cannot be loaded or served; intel-opencl-rt or a compiler is missing.
    """
    runtime = find_runtime(_asked(python, env), env, python)
    require_loads(runtime.opencl, env, python)
    return applied(runtime, adapter(runtime, env, cache), env)


def not_proved(identifier: str) -> str | None:
    """Return why a check proves nothing on the stand-in, None where it does."""
    for patterns, why in NOT_PROVED:
        if any(fnmatchcase(identifier, pattern) for pattern in patterns):
            return f"not proved on the stand-in: {why}"
    return None


def applied(runtime: Runtime, library: Path, env: Mapping[str, str]) -> dict[str, str]:
    """Return ``env`` with what makes a SYCL program of this runtime load the adapter, and no other device."""
    chosen = {name: value for name, value in env.items() if name != "ONEAPI_DEVICE_SELECTOR"}
    return chosen | {
        "UR_ADAPTERS_FORCE_LOAD": str(library),
        "XPUBUILD_STANDIN_INNER": str(runtime.inner),
        "OCL_ICD_FILENAMES": str(runtime.opencl),
    }


def find_runtime(answer: Mapping[str, Any], env: Mapping[str, str], python: Path) -> Runtime:
    """Return the runtime that ``standin_probe.py`` found, if the stand-in can serve it.

    Raises:
        UsageError, ToolchainError: as ``environment``.
    """
    if answer.get("torch") is None:
        raise UsageError(f"{python} has no torch", fix="select another interpreter with --python")
    if not answer["xpu"]:
        raise UsageError(
            "--stand-in needs a torch for XPU",
            why=f"{python} has torch {answer['torch']}, which was built without XPU",
            fix="build one with 'xpubuild install --target xpu', or verify this one with --device cpu",
        )
    if not answer.get("libsycl"):
        raise ToolchainError(
            "the SYCL runtime of torch cannot be loaded",
            why=str(answer.get("error") or "libc10_xpu.so needs no libsycl"),
            fix="activate the workspace, or oneAPI of the release that torch was built with",
        )
    libsycl = Path(answer["libsycl"])
    headers = _first(_folders(libsycl, answer["prefix"]), _HEADERS)
    inner = next((found for name in _INNER if (found := libsycl.parent / name).exists()), None)
    if headers is None or inner is None:
        raise _unserved(libsycl, headers is None, python)
    return Runtime(libsycl, headers, inner, _opencl(libsycl, answer["prefix"], env, python))


def _asked(python: Path, env: Mapping[str, str]) -> dict[str, Any]:
    answer = query([str(python), "-I", str(suite_dir() / "standin_probe.py")], env=env, deadline_s=120)
    try:
        return dict(json.loads(answer.stdout))
    except ValueError as error:
        raise ToolchainError(
            f"{python} cannot say which SYCL runtime its torch loads",
            why=(answer.stderr.strip().splitlines() or [f"it ended with status {answer.returncode}"])[-1],
            fix="check that the interpreter works, and torch with it",
            commands=(shlex.join([str(python), "-c", "import torch"]),),
        ) from error


def _folders(libsycl: Path, prefix: str) -> Iterable[Path]:
    for root in (libsycl.parent.parent, libsycl.resolve().parent.parent, Path(prefix)):
        yield from (root / "include" / "unified-runtime", root / "include")


def _first(folders: Iterable[Path], names: Iterable[str]) -> Path | None:
    wanted = tuple(names)
    return next((folder for folder in folders if all((folder / name).is_file() for name in wanted)), None)


def _unserved(libsycl: Path, no_headers: bool, python: Path) -> ToolchainError:
    major = libsycl.name.partition(".so.")[2].partition(".")[0]
    line = _LINES.get(major, "unknown")
    lacks = f"the headers {' and '.join(_HEADERS)}" if no_headers else " or ".join(_INNER)
    packages = "intel-sycl-rt" if no_headers else "intel-cmplr-lib-ur"
    return ToolchainError(
        f"the stand-in cannot serve {libsycl.name} (oneAPI {line})",
        why=f"{libsycl.parent.parent} lacks {lacks}; wheels of 2026.0 and later have them, older ones do not",
        fix=f"use a torch for oneAPI 2026 or later; if it is one, install {packages} of its release",
        commands=(shlex.join([str(python), "-m", "pip", "install", packages]),) if major == "9" else (),
        evidence={"libsycl": str(libsycl)},
    )


def _opencl(libsycl: Path, prefix: str, env: Mapping[str, str], python: Path) -> Path:
    named = [Path(name) for name in env.get("OCL_ICD_FILENAMES", "").split(os.pathsep)]
    beside = [libsycl.parent / _OPENCL, Path(prefix) / "lib" / _OPENCL]
    for place in (*(path for path in named if path.name == _OPENCL), *beside):
        if place.exists():
            return place
    raise ToolchainError(
        "the stand-in needs Intel's OpenCL CPU device",
        why=f"{_OPENCL} is neither in {libsycl.parent} nor in {prefix}/lib",
        fix="install intel-opencl-rt, of the release of that SYCL runtime, beside torch",
        commands=(shlex.join([str(python), "-m", "pip", "install", "intel-opencl-rt"]),),
    )


def require_loads(opencl: Path, env: Mapping[str, str], python: Path) -> None:
    """Load Intel's OpenCL device in a process of its own: without oneTBB there is none, and nothing says so.

    Raises:
        ToolchainError: it cannot be loaded.
    """
    program = "import ctypes, sys; ctypes.CDLL(sys.argv[1])"
    answer = query([str(python), "-I", "-c", program, str(opencl)], env=env, deadline_s=120)
    if not answer.ok:
        raise ToolchainError(
            "Intel's OpenCL CPU device cannot be loaded",
            why=(answer.stderr.strip().splitlines() or [f"loading {opencl} failed"])[-1],
            fix="install intel-opencl-rt with what it requires: oneTBB, for one",
            commands=(shlex.join([str(python), "-m", "pip", "install", "intel-opencl-rt"]),),
        )


def adapter(runtime: Runtime, env: Mapping[str, str], cache: Path) -> Path:
    """Return the compiled adapter for a runtime; the same source, headers and compiler make it once.

    Raises:
        ToolchainError: there is no compiler, or it does not take these headers.
        NoSpaceError: the cache folder is full.
    """
    compiler = _compiler(env)
    inputs = [_SOURCE, *(runtime.headers / name for name in _HEADERS)]
    digest = hashlib.sha256(compiler.encode())
    for path in inputs:
        digest.update(path.read_bytes())
    library = cache / "standin" / f"{digest.hexdigest()[:24]}.so"
    if library.is_file():
        return library
    with scratch_folder("standin") as scratch:
        made = scratch / library.name
        # From 2026.0 on the headers include each other by the name of their folder.
        include = (f"-I{runtime.headers}", f"-I{runtime.headers.parent}")
        argv = [compiler, "-std=c++17", "-O1", "-shared", "-fPIC", *include, str(_SOURCE),
                "-ldl", "-o", str(made)]  # fmt: skip
        answer = query(argv, env=env, deadline_s=_COMPILE_S)
        if answer.returncode != 0:
            raise ToolchainError(
                f"the stand-in cannot be compiled for {runtime.libsycl.name}",
                why=(answer.stderr.strip().splitlines() or ["the compiler gave no reason"])[0],
                fix="use GCC 9 or later; if it is, this release of oneAPI is not served",
                commands=(shlex.join(argv[:-2]),),
                evidence={"headers": str(runtime.headers)},
            )
        with explained(library, "keeping the stand-in"):
            library.parent.mkdir(parents=True, exist_ok=True)
            draft = library.with_suffix(f".{os.getpid()}")
            shutil.copyfile(made, draft)
            draft.replace(library)
            fsync_dir(library.parent)
    return library


def _compiler(env: Mapping[str, str]) -> str:
    for name in (env.get("CXX", ""), "g++", "c++", "clang++"):
        found = shutil.which(name, path=env.get("PATH", os.defpath)) if name else None
        if found:
            return found
    raise ToolchainError(
        "the stand-in needs a C++ compiler",
        why="there is neither g++ nor clang++ on PATH, and CXX names none",
        fix="install g++",
    )
