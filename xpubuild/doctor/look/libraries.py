"""Shared libraries: the file that the loader finds, and the data in ELF files."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from xpubuild.doctor.kit import Look, real
from xpubuild.errors import AuditError
from xpubuild.machine.readers import entries, read_text

if TYPE_CHECKING:
    from xpubuild.artifacts.elf import ElfObject

LIBSTDCXX = "libstdc++.so.6"
#: Where the loader looks by itself on the distributions of Max hosts (ld.so(8); Debian's multiarch folders).
SYSTEM_FOLDERS = (
    "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib",
    "/usr/local/lib", "/usr/local/lib64",
)  # fmt: skip
#: Libraries of oneAPI and of the driver that exist in many copies on one host.
FAMILIES = (
    ("SYCL", re.compile(r"libsycl\.so\.\d+")),
    ("unified runtime", re.compile(r"libur_[a-z0-9_]+\.so(\.\d+)+")),
    ("oneMKL", re.compile(r"libmkl_[a-z0-9_]+\.so(\.\d+)*")),
    ("oneDNN", re.compile(r"libdnnl\.so\.\d+")),
    ("oneCCL", re.compile(r"libccl\.so\.\d+")),
    ("MPI", re.compile(r"libmpi(cxx|_cxx|fort)?\.so\.\d+")),
    ("TBB", re.compile(r"libtbb[a-z0-9_]*\.so\.\d+")),
    ("UMF", re.compile(r"libumf\.so\.\d+")),
    ("Level Zero", re.compile(r"libze_[a-z0-9_]+\.so\.\d+")),
)
_SYCL = re.compile(r"libsycl\.so\.(\d+)")
_VERSION = re.compile(r"(?:GLIBCXX|CXXABI)_(\d+(?:\.\d+)*)")


def elf_of(path: Path) -> ElfObject | None:
    """Return the data of an ELF file, or None if it is not one, is damaged or cannot be read."""
    try:
        return _read(path, path.stat().st_mtime_ns)
    except OSError:
        return None


@functools.lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> ElfObject | None:  # noqa: ARG001 - part of the key
    # pyelftools takes longer to import than most checks take; a host without torch needs none of it.
    from xpubuild.artifacts.elf import is_elf, read_shared_object  # noqa: PLC0415

    if not is_elf(path):
        return None
    try:
        return read_shared_object(path)
    except AuditError:
        return None


def family_of(name: str) -> str | None:
    """Return which of the families a library belongs to by its file name."""
    return next((family for family, pattern in FAMILIES if pattern.fullmatch(name)), None)


def members(folder: Path) -> dict[str, Path]:
    """Return file name -> path of the libraries of these families in a folder."""
    return {entry.name: entry for entry in entries(folder) if family_of(entry.name)}


def system_folders(look: Look) -> tuple[Path, ...]:
    """Return the folders that the loader searches by itself, those of /etc/ld.so.conf.d first."""
    if look.loader is not None:
        return look.loader
    configured: list[str] = []
    for file in entries(look.path("/etc/ld.so.conf.d"), look.root):
        if file.suffix == ".conf":
            lines = (read_text(file, look.root) or "").splitlines()
            configured += [line.strip() for line in lines if line.startswith("/")]
    folders = (look.path(folder) for folder in (*configured, *SYSTEM_FOLDERS))
    return tuple(dict.fromkeys(folders))


def find(name: str, folders: Iterable[Path]) -> Path | None:
    """Return the first file of this name in some folders."""
    return next((place for folder in folders if _is_file(place := folder / name)), None)


def find_all(pattern: str, folders: Iterable[Path]) -> Iterator[Path]:
    """Yield the files that fit a glob pattern, folder by folder, each real file once."""
    seen = set()
    for folder in folders:
        for place in sorted(folder.glob(pattern)):
            if _is_file(place) and real(place) not in seen:
                seen.add(real(place))
                yield place


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:
        return False


def search_folders(path: Path, elf: ElfObject) -> tuple[Path, ...]:
    """Return the folders that an object's own RPATH and RUNPATH name."""
    origin = str(path.parent)
    named = (
        entry.replace("$ORIGIN", origin).replace("${ORIGIN}", origin) for entry in (*elf.rpath, *elf.runpath)
    )
    return tuple(Path(entry) for entry in named if entry.startswith("/"))


def sycl_major(name: str) -> int | None:
    """Return N of libsycl.so.N at the start of a name."""
    match = _SYCL.match(name)
    return int(match[1]) if match else None


def cxx_versions(names: Iterable[str]) -> frozenset[str]:
    """Return the versions of libstdc++'s interface among some symbol versions."""
    return frozenset(name for name in names if _VERSION.fullmatch(name))


def newest(names: Iterable[str]) -> str:
    """Return the highest GLIBCXX version, or an empty text."""
    numbered = [name for name in names if name.startswith("GLIBCXX_")]
    return max(numbered, key=_key, default="")


def _key(name: str) -> tuple[int, ...]:
    match = _VERSION.fullmatch(name)
    return tuple(int(part) for part in match[1].split(".")) if match else ()
