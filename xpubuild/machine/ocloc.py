"""ocloc, the offline compiler of the GPU driver: whether it compiles a kernel for a list of AOT targets.

``ocloc ids NAME`` and ``ocloc query`` prove nothing: they neither load the graphics compiler nor take a list
of targets. So a kernel without instructions is compiled with the options that the SYCL compiler gives ocloc.
"""

from __future__ import annotations

import re
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from xpubuild.engine.process import query
from xpubuild.engine.temporary import scratch_folder
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

PROGRAM = "ocloc"
_DEADLINE_S = 60.0
_LAST_WORDS = 300
_OUTPUT = "kernel.out"
# Messages of shared/offline_compiler/source of intel/compute-runtime, releases 22.43 to 26.31; a list of
# targets and a single one have their own.
_NOT_KNOWN = re.compile(
    r"Failed to parse target : (?P<listed>\S+)"
    r"|(?:Cannot get HW Info for device|Could not determine device target:) (?P<single>\S+)"
)
# What the offline compiler and the driver are found by, if a module provides them.
_DRIVER_LIBRARIES = ("libocloc.so*", "libigc.so*", "libze_intel_gpu.so*")
# A SPIR-V 1.0 module with one kernel that returns: words as in the SPIR-V specification, opcode first.
_MAGIC, _VERSION, _BOUND = 0x07230203, 0x00010000, 6
_NAME = struct.unpack("<2I", b"probe".ljust(8, b"\0"))
_EXTENSION = struct.unpack("<3I", b"OpenCL.std".ljust(12, b"\0"))
_INSTRUCTIONS: tuple[tuple[int, ...], ...] = (
    (17, 4), (17, 5), (17, 6),  # OpCapability Addresses, Linkage, Kernel
    (11, 1, *_EXTENSION),  # OpExtInstImport
    (14, 2, 2),  # OpMemoryModel Physical64 OpenCL
    (15, 6, 4, *_NAME),  # OpEntryPoint Kernel
    (19, 2), (33, 3, 2),  # OpTypeVoid, OpTypeFunction
    (54, 2, 4, 0, 3), (248, 5), (253,), (56,),  # OpFunction, OpLabel, OpReturn, OpFunctionEnd
)  # fmt: skip


@frozen
class OclocAnswer:
    """What ocloc did with a list of targets: ``unknown`` are those that it does not know.

    ``words`` are its last ones where it did not compile; neither is set where it did.
    """

    unknown: tuple[str, ...] = ()
    words: str = ""

    @property
    def ok(self) -> bool:
        """Whether the kernel was compiled for all targets."""
        return not self.words and not self.unknown


def find_ocloc(environment: Mapping[str, str]) -> str | None:
    """Return the ocloc that a process with this environment would start."""
    return shutil.which(PROGRAM, path=environment.get("PATH", ""))


def driver_folders(search_path: str) -> tuple[str, ...]:
    """Return the folders of a search path that hold libraries of the GPU's driver or offline compiler."""
    return tuple(
        folder
        for folder in dict.fromkeys(search_path.split(":"))
        if folder.startswith("/") and any(any(Path(folder).glob(name)) for name in _DRIVER_LIBRARIES)
    )


def try_ocloc(program: str, targets: Sequence[str], environment: Mapping[str, str]) -> OclocAnswer:
    """Compile a kernel for a list of targets as the SYCL compiler would ask for it; never raises.

    ``environment`` is the whole environment of the process: where ocloc comes from a module, its libraries
    are found by LD_LIBRARY_PATH alone.
    """
    words = _compile(program, targets, environment)
    if not words or not _NOT_KNOWN.search(words):
        return OclocAnswer(words=words)
    alone = {name: _compile(program, [name], environment) for name in targets} if targets[1:] else {}
    unknown = tuple(name for name, printed in alone.items() if _NOT_KNOWN.search(printed))
    return OclocAnswer(unknown or _named(words, targets), words)


def _named(words: str, targets: Sequence[str]) -> tuple[str, ...]:
    """Return the targets that a message names: some are known alone, but not in a list (dg2 up to 23.43)."""
    found = [match["listed"] or match["single"] for match in _NOT_KNOWN.finditer(words)]
    named = {name.rstrip(".:") for name in found}
    return tuple(name for name in targets if name in named) or tuple(targets)


def _compile(program: str, targets: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return the last words of ocloc where it did not make a device image; empty where it did."""
    try:
        with scratch_folder(PROGRAM) as folder:
            (folder / "kernel.spv").write_bytes(_kernel())
            argv = (
                program, "-output", _OUTPUT, "-file", "kernel.spv", "-output_no_suffix", "-spirv_input",
                "-device", ",".join(targets),
            )  # fmt: skip
            result = query(argv, env=environment, cwd=folder, deadline_s=_DEADLINE_S)
            made = folder / _OUTPUT
            if result.ok and made.is_file() and made.stat().st_size:
                return ""
    except (ToolchainError, OSError) as error:
        return str(error)
    printed = " ".join(f"{result.stdout}\n{result.stderr}".split())[-_LAST_WORDS:]
    how = "timed out" if result.timed_out else f"exited with code {result.returncode}"
    return printed or f"it {how}, without a device image"


def _kernel() -> bytes:
    words = [word for code, *rest in _INSTRUCTIONS for word in ((len(rest) + 1) << 16 | code, *rest)]
    return struct.pack(f"<{5 + len(words)}I", _MAGIC, _VERSION, 0, _BOUND, 0, *words)
