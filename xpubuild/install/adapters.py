"""Whether the SYCL runtime's adapters for the GPU find their libraries in the environment of a build.

From 2025.0 on libur_adapter_level_zero needs libumf, and that needs libhwloc.so.15, which oneAPI's tcm has
and its umf has not. Where it is missing the runtime drops the adapter without a word and finds no GPU.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from xpubuild.artifacts.elf import is_elf, read_shared_object
from xpubuild.artifacts.linkage import DRIVER_LIBRARIES, Linker, Missing
from xpubuild.machine.oneapi_components import COMPILER
from xpubuild.machine.oneapi_environment import OneapiEnvironment

_ADAPTERS = "libur_adapter_level_zero*.so.*"


def lost_adapters(oneapi: OneapiEnvironment, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return a warning if an adapter of the compiler needs libraries that it does not find.

    Libraries of the driver and its loader are left out: a host that only builds has none.

    Raises:
        AuditError: a library on the way is damaged.
    """
    search = [
        Path(item) for item in environment.get("LD_LIBRARY_PATH", "").split(":") if item.startswith("/")
    ]
    folders = [item.path / "lib" for item in oneapi.components if item.name == COMPILER]
    found: dict[str, Missing] = {}
    for path in {file.resolve() for folder in folders for file in folder.glob(_ADAPTERS)}:
        if is_elf(path):
            closure = Linker({str(path): read_shared_object(path)}, search=search).closure(str(path))
            found |= {item.library: item for item in closure.missing if not _is_of_the_driver(item.library)}
    return (_told(sorted(found.values(), key=lambda item: item.library)),) if found else ()


def _is_of_the_driver(library: str) -> bool:
    return any(fnmatchcase(library, pattern) for pattern in DRIVER_LIBRARIES)


def _told(missing: Sequence[Missing]) -> str:
    named = ", ".join(f"{item.library} (needed by {Path(item.chain[-1]).name})" for item in missing)
    hwloc = any("hwloc" in item.library for item in missing)
    return (
        f"not found: {named}; the SYCL runtime then drops its adapter for Level Zero without a message and"
        " finds no GPU" + ("; install oneAPI's tcm, or libhwloc15 of the distribution" if hwloc else "")
    )
