"""Reads a mirror's manifest and files. Needs no write permission and no lock."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from xpubuild.errors import ToolchainError
from xpubuild.mirror.entries import MANIFEST, OLD_PAGE, Entry, EntryError, FileRecord, parse
from xpubuild.untrusted import UntrustedError, read_bytes

_CHUNK = 1 << 20
_SUFFIX = ".json"
#: A staged change that is verified and whole; ``writing`` puts it in place, after a kill too.
COMMITTING = ".commit-"
STAGING = ".stage-"


@dataclass(frozen=True)
class Damage:
    """Something in a mirror that is not what its manifest says."""

    path: str
    """Below the mirror."""
    what: str
    why: str
    entry: str = ""
    """Name of its entry in the manifest."""

    def __str__(self) -> str:
        return f"{self.path} {self.what}: {self.why}"


@dataclass(frozen=True)
class Manifest:
    """The entries of a mirror by id, and the manifest files that cannot be trusted."""

    entries: dict[str, Entry]
    damages: tuple[Damage, ...]


Cached = dict[str, tuple[tuple[int, int, int], Entry]]


def read_manifest(root: Path, cache: Cached | None = None) -> Manifest:
    """Return all entries of the mirror at ``root``; ``cache`` spares unchanged files another look."""
    entries: dict[str, Entry] = {}
    damages: list[Damage] = []
    for item in scan(root / MANIFEST):
        if item.name.startswith(".") or item.name == f"{OLD_PAGE}{_SUFFIX}":
            continue  # the draft of a writer that was killed
        where, identifier = f"{MANIFEST}/{item.name}", item.name.removesuffix(_SUFFIX)
        try:
            entries[identifier] = _read(item, identifier, {} if cache is None else cache)
        except (EntryError, OSError) as error:
            why = error.strerror or str(error) if isinstance(error, OSError) else str(error)
            damages.append(Damage(where, "is damaged", why, identifier))
    return Manifest(entries, tuple(damages))


def _read(item: os.DirEntry[str], identifier: str, cache: Cached) -> Entry:
    status = item.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode) or not item.name.endswith(_SUFFIX):
        raise EntryError("it is not a file that xpubuild writes")
    key = (status.st_mtime_ns, status.st_size, status.st_ino)
    known = cache.get(identifier)
    if known is None or known[0] != key:
        known = cache[identifier] = (key, parse(_small(Path(item.path)), identifier))
    return known[1]


def _small(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except UntrustedError as error:
        raise EntryError(str(error)) from error


def read_committing(root: Path) -> dict[str, list[Entry]]:
    """Return the entries that verified changes are about to put in place, by id."""
    found: dict[str, list[Entry]] = {}
    for folder in scan(root):
        if folder.name.startswith(COMMITTING):
            for identifier, entry in read_manifest(Path(folder.path)).entries.items():
                found.setdefault(identifier, []).append(entry)
    return found


def scan(folder: Path) -> list[os.DirEntry[str]]:
    """Return what is in a folder, sorted; nothing where there is no folder.

    Raises:
        ToolchainError: the folder may not be read.
    """
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda item: item.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ToolchainError(
            f"{folder} cannot be read",
            why=str(error.strerror),
            fix="correct the permissions of the mirror, or pass another one with --mirror",
        ) from error


def walk(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield (path below ``folder``, entry) of all that is no folder, links to folders included."""
    for item in scan(folder):
        if item.is_dir(follow_symlinks=False):
            for path, below in walk(Path(item.path)):
                yield f"{item.name}/{path}", below
        else:
            yield item.name, item


def hashed(
    stream: BinaryIO,
    write: Callable[[bytes], object] | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[int, str]:
    """Read a stream to its end, hand its bytes on to ``write``, and return their number and sha256."""
    total, size = hashlib.sha256(), 0
    while chunk := stream.read(_CHUNK):
        total.update(chunk)
        size += len(chunk)
        if write is not None:
            write(chunk)
        if progress is not None:
            progress(len(chunk))
    return size, total.hexdigest()


def digest_of(path: Path, progress: Callable[[int], None] | None = None) -> tuple[int, str]:
    """Return size and sha256 of a file; a link is not followed.

    Raises:
        OSError: it does not exist, no file, or cannot be read.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as stream:
        return hashed(stream, None, progress)


def compare(root: Path, record: FileRecord, progress: Callable[[int], None] | None = None) -> str:
    """Return what is wrong with a file of a mirror; "" where every byte is what it was."""
    path = root / record.path
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return "it is not a regular file"
        if status.st_size != record.size:
            return f"it has {status.st_size} bytes, the manifest says {record.size}"
        _, digest = digest_of(path, progress)
    except FileNotFoundError:
        return "it does not exist"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if digest == record.sha256 else f"its sha256 is {digest}, the manifest says {record.sha256}"
