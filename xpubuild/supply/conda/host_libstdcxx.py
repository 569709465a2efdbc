"""Reads from ELF files which libstdc++ this machine's GPU driver and compilers need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from xpubuild.artifacts.elf import is_elf, read_shared_object
from xpubuild.errors import AuditError
from xpubuild.frozen import frozen
from xpubuild.supply.conda.libstdcxx import glibcxx, newest

STDLIB = "libstdc++.so.6"
#: Where distributions have the driver and the C++ library; also those of the host's report.
FOLDERS = ("usr/lib/x86_64-linux-gnu", "usr/lib64", "usr/lib", "usr/local/lib", "usr/local/lib64", "lib64")
#: The Level Zero driver and loader: what fails to load beside an older libstdc++ (known failures, family A).
DRIVER = ("libze_intel_gpu.so.1*", "libze_loader.so.1*")


@frozen
class CxxNeed:
    """The newest symbol version (``GLIBCXX_3.4.30``) that this machine needs, and the file that needs it."""

    version: str
    source: str


def machine_need(root: Path = Path("/")) -> CxxNeed | None:
    """Return what an environment's libstdc++ must have; None where nothing can be read.

    It must satisfy the driver, and have what the system's has: the host's compiler links against that.
    Files that cannot be read say nothing.
    """
    found = [*_driver(root), *_system(root)]
    return max(found, key=lambda need: glibcxx(need.version), default=None)


def provided(library: Path) -> str | None:
    """Return the newest symbol version that a libstdc++ has.

    Raises:
        AuditError: it cannot be read.
    """
    return newest(read_shared_object(library).versions_defined)


def _driver(root: Path) -> Iterator[CxxNeed]:
    for path in _files(root, *DRIVER):
        try:
            wanted = newest(read_shared_object(path).versions_needed.get(STDLIB, ()))
        except AuditError:
            continue
        if wanted:
            yield CxxNeed(wanted, str(path))


def _system(root: Path) -> Iterator[CxxNeed]:
    for path in _files(root, STDLIB):
        try:
            has = provided(path)
        except AuditError:
            continue
        if has:
            yield CxxNeed(has, str(path))


def _files(root: Path, *patterns: str) -> Iterator[Path]:
    for folder in FOLDERS:
        for pattern in patterns:
            yield from (path for path in sorted((root / folder).glob(pattern)) if is_elf(path))
