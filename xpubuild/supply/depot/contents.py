"""What files contain and what programs say of themselves, remembered by size and times of the files."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from xpubuild.artifacts.elf import is_elf
from xpubuild.engine.files import write_atomic
from xpubuild.engine.fingerprint import digest, file_sha256
from xpubuild.errors import XpuBuildError
from xpubuild.untrusted import json_value, read_bytes

_SCHEMA = "xpubuild.contents/1"
#: A file that was changed within this time may be changed again without another time of change.
_SETTLED_S = 2.0
_LINKABLE = (".so", ".a")
#: What compilers and the loader read of an environment, beside the files of the system (gcc(1), ld.so(8)).
_VARIABLES = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH",
    "GCC_EXEC_PREFIX", "COMPILER_PATH", "SYSROOT", "SDKROOT",
)  # fmt: skip
_LOADER_CACHE = Path("/etc/ld.so.cache")
_DIGITS = 64


class Contents:
    """Hashes of files and listings of folders; ``memory`` is the file that remembers them, in the cache.

    No program can set the time of change (ctime) of a file, so a file with the same one has the same content.
    """

    def __init__(self, memory: Path) -> None:
        self._memory = memory
        self._files = _read(memory, "files")
        self._answers = _read(memory, "answers")
        self._fresh = False

    def sha256(self, path: Path) -> str:
        """Return the sha256 (hex) of the file that a path leads to; "" where none can be read."""
        try:
            real = path.resolve()
            stamp = _stamp(real)
            known = self._files.get(str(real))
            if known is not None and known[:-1] == stamp and len(str(known[-1])) == _DIGITS:
                return str(known[-1])
            found = file_sha256(real)
        except (OSError, RuntimeError):  # a loop of links
            return ""
        if _is_settled(stamp):
            self._files[str(real)] = [*stamp, found]
            self._fresh = True
        return found

    def answer(self, argv: Sequence[str], environment: Mapping[str, str], ask: Callable[[], str]) -> str:
        """Return what ``ask`` returns, which is what a program says with these arguments.

        Remembered while the program, the loader's cache and the environment are the same. Scripts are asked
        each time: what they start may have changed.
        """
        program = Path(argv[0])
        try:
            if not is_elf(program):
                return ask()
            stamps = [_stamp(path) for path in (program.resolve(), _LOADER_CACHE) if path.exists()]
        except OSError:
            return ask()
        named = {name: environment.get(name) for name in _VARIABLES}
        key = digest([list(argv), named, stamps])
        known = self._answers.get(key)
        if known is not None and isinstance(known[-1], str):
            return known[-1]
        said = ask()
        if said and all(map(_is_settled, stamps)):
            self._answers[key] = [said]
            self._fresh = True
        return said

    def save(self) -> None:
        """Remember what was hashed; a cache that cannot be written is no failure."""
        if self._fresh:
            document = {"schema": _SCHEMA, "files": self._files, "answers": self._answers}
            with contextlib.suppress(XpuBuildError, OSError):
                write_atomic(self._memory, json.dumps(document).encode())
            self._fresh = False


def _stamp(path: Path) -> list[object]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _is_settled(stamp: Sequence[object]) -> bool:
    changed = stamp[2]
    return isinstance(changed, int) and time.time() - changed / 1e9 > _SETTLED_S


def _read(memory: Path, part: str) -> dict[str, list[object]]:
    try:
        document = json_value(read_bytes(memory))
    except (OSError, ValueError):
        return {}
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA:
        return {}
    found = document.get(part)
    items = found.items() if isinstance(found, dict) else ()
    return {key: entry for key, entry in items if isinstance(entry, list) and entry}


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
