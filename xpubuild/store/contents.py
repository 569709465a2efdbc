"""What files contain: their sha256, each read once and remembered by size, times and inode."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import digest, file_sha256
from xpubuild.errors import XpuBuildError
from xpubuild.untrusted import json_value, read_bytes

_SCHEMA = "xpubuild.contents/1"
#: A file that was changed within this time may be changed again without another time of change.
_SETTLED_S = 2.0
_LINKABLE = (".so", ".a")


class Contents:
    """Hashes of files and listings of folders; ``memory`` is the file that remembers them, in the cache.

    No program can set the time of change (ctime) of a file, so a file with the same one has the same content.
    """

    def __init__(self, memory: Path) -> None:
        self._memory = memory
        self._known: dict[str, list[object]] = _read(memory)
        self._fresh = False

    def sha256(self, path: Path) -> str:
        """Return the sha256 (hex) of the file that a path leads to; "" where none can be read."""
        try:
            real = path.resolve()
            status = real.stat()
            stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
            known = self._known.get(str(real))
            if known is not None and known[:-1] == stamp:
                return str(known[-1])
            found = file_sha256(real)
        except (OSError, RuntimeError):  # a loop of links
            return ""
        if time.time() - status.st_ctime > _SETTLED_S:
            self._known[str(real)] = [*stamp, found]
            self._fresh = True
        return found

    def save(self) -> None:
        """Remember what was hashed; a cache that cannot be written is no failure."""
        if self._fresh:
            document = {"schema": _SCHEMA, "files": self._known}
            with contextlib.suppress(XpuBuildError, OSError):
                write_atomic(self._memory, json.dumps(document).encode())
            self._fresh = False


def _read(memory: Path) -> dict[str, list[object]]:
    try:
        document = json_value(read_bytes(memory))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        return {}
    files = document.get("files")
    return {
        path: entry
        for path, entry in (files.items() if isinstance(files, dict) else ())
        if isinstance(entry, list) and isinstance(entry[-1:], list) and len(entry) == 5  # noqa: PLR2004
    }


def headers(folder: Path) -> str:
    """Return a digest of the names and sizes of all files below a folder; "" where there are none."""
    found = sorted(_below(os.fspath(folder), ""))
    return digest(found) if found else ""


def _below(folder: str, prefix: str) -> Iterator[list[object]]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            name = f"{prefix}{entry.name}"
            with contextlib.suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    yield from _below(entry.path, f"{name}/")
                else:
                    yield [name, entry.stat().st_size]


def libraries(folder: Path) -> str:
    """Return a digest of what a linker and CMake find in a folder of libraries; "" where that is nothing.

    A shared library counts with the name that its link leads to, which has its version.
    """
    found: list[list[object]] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                if entry.name.endswith(_LINKABLE):
                    link = Path(entry.path).readlink().name if entry.is_symlink() else ""
                    found.append([entry.name, link or entry.stat().st_size])
    with contextlib.suppress(OSError):
        found += [["cmake", path.name] for path in (folder / "cmake").iterdir()]
    return digest(sorted(found, key=str)) if found else ""
