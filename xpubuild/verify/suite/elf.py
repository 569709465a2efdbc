"""The libraries that a library needs and where the dynamic linker finds them, without loading anything.

This works on machines without GPU and driver. Rules of ld.so(8): RPATH of the library and of those that need
it (unless it has a RUNPATH), LD_LIBRARY_PATH, RUNPATH, then the folders of ld.so.conf and the default ones.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_NEEDED, _STRTAB, _SONAME, _RPATH, _RUNPATH, _STRSZ = 1, 5, 14, 15, 29, 10
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DEFAULT = ("/lib64", "/usr/lib64", "/lib", "/usr/lib")


class ElfError(ValueError):
    """The file is not a 64-bit little-endian ELF file, or is damaged."""


@dataclass(frozen=True)
class Dynamic:
    """The data of a library's dynamic section."""

    needed: tuple[str, ...] = ()
    soname: str = ""
    rpath: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()


def read_dynamic(path: Path) -> Dynamic:
    """Return the libraries that a library needs and its search paths. Raises ElfError."""
    try:
        with path.open("rb") as stream:
            head = stream.read(64)
            if head[:6] != b"\x7fELF\x02\x01":
                raise ElfError(f"{path} is not a 64-bit little-endian ELF file")
            (offset,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
            stream.seek(offset)
            headers = [struct.unpack("<IIQQQQQQ", stream.read(size)[:56]) for _ in range(count)]
            segment = next((header for header in headers if header[0] == _PT_DYNAMIC), None)
            if segment is None:
                return Dynamic()
            stream.seek(segment[2])
            entries = list(struct.iter_unpack("<qQ", stream.read(segment[5] // 16 * 16)))
            table = dict(entries)
            loads = [header for header in headers if header[0] == _PT_LOAD]
            stream.seek(_file_offset(table[_STRTAB], loads, path))
            names = stream.read(table[_STRSZ])
    except (struct.error, KeyError) as error:
        raise ElfError(f"{path} is damaged: {error!r}") from error

    def text(tag: int) -> list[str]:
        return [_string(names, value) for key, value in entries if key == tag]

    return Dynamic(
        needed=tuple(text(_NEEDED)),
        soname=next(iter(text(_SONAME)), ""),
        rpath=tuple(part for value in text(_RPATH) for part in value.split(":") if part),
        runpath=tuple(part for value in text(_RUNPATH) for part in value.split(":") if part),
    )


def _file_offset(address: int, loads: Iterable[tuple[int, ...]], path: Path) -> int:
    for _, _, offset, virtual, _, in_file, _, _ in loads:
        if virtual <= address < virtual + in_file:
            return address - virtual + offset
    raise ElfError(f"{path} is damaged: its names are in no segment")


def _string(names: bytes, at: int) -> str:
    return names[at : names.index(b"\0", at)].decode("utf-8", "replace")


def system_folders() -> list[str]:
    """Return the folders that every process looks in, those of ld.so.conf first."""
    found: list[str] = []
    _configured(Path("/etc/ld.so.conf"), found, set())
    return [*found, *_DEFAULT]


def _configured(path: Path, found: list[str], seen: set[Path]) -> None:
    if path in seen or not path.is_file():
        return
    seen.add(path)
    for line in path.read_text("utf-8", "replace").splitlines():
        words = line.partition("#")[0].split()
        if words[:1] == ["include"] and len(words) > 1:
            pattern = Path(path.parent, words[1])
            for other in sorted(Path(pattern.parent).glob(pattern.name)):
                _configured(other, found, seen)
        elif words:
            found.append(words[0])


@dataclass
class Closure:
    """All libraries that some need, found or not.

    ``found`` maps names to files, ``missing`` names to the file that needs them; ``damaged`` has messages.
    """

    found: dict[str, Path] = field(default_factory=dict)
    missing: dict[str, Path] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)


def closure(roots: Iterable[Path]) -> Closure:
    """Resolve all direct and indirect dependencies of libraries.

    Libraries in one process satisfy each other by soname: torch loads its own with
    their full path before it loads what needs them.
    """
    result = Closure()
    loaded: dict[str, Path] = {}
    queue: list[tuple[Path, tuple[str, ...]]] = [(root, ()) for root in roots]
    for root, _ in queue:
        loaded.setdefault(root.name, root)
    environment = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    system, seen = system_folders(), set[Path]()
    while queue:
        path, inherited = queue.pop()
        real = path.resolve()
        if real in seen:
            continue
        seen.add(real)
        try:
            dynamic = read_dynamic(path)
        except (ElfError, OSError) as error:
            result.damaged.append(str(error))
            continue
        own = tuple(_expanded(dynamic.rpath, path)) if not dynamic.runpath else ()
        folders = [*(() if dynamic.runpath else (*own, *inherited)), *environment]
        folders += [*_expanded(dynamic.runpath, path), *system]
        for name in dynamic.needed:
            target = loaded.get(name) or _search(name, folders)
            if target is None:
                result.missing.setdefault(name, path)
            else:
                result.found[name] = target
                queue.append((target, (*own, *inherited)))
    for name in [name for name in result.missing if name in result.found]:
        del result.missing[name]
    return result


def _expanded(folders: Iterable[str], path: Path) -> Iterator[str]:
    origin = str(path.resolve().parent)
    for folder in folders:
        yield folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)


def _search(name: str, folders: Iterable[str]) -> Path | None:
    if "/" in name:
        return Path(name) if Path(name).is_file() else None
    for folder in folders:
        candidate = Path(folder, name)
        try:
            with candidate.open("rb") as stream:
                if stream.read(6) == b"\x7fELF\x02\x01":
                    return candidate
        except OSError:
            continue
    return None
