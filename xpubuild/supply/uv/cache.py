"""The cache of uv: whose it is, and of which wheel an installed distribution is.

uv verifies the hash of a wheel when it unpacks it, and does not report which of the allowed ones that was.
Its cache has, for each unpacked wheel, a small file with hash, file name and URL beside a link to the
unpacked files (crates/uv-distribution: ``HttpArchivePointer``, ``LocalArchivePointer``). The form of that
file is uv's own; here it is searched for the hashes that are allowed, and what it leads to is compared with
what is installed.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import InstalledDist, RecordEntry, installed_dists, record_entries
from xpubuild.engine.places import WRITABLE_BY_OTHERS
from xpubuild.frozen import frozen
from xpubuild.supply.index.pipconf import without_login

_POINTERS = (".http", ".rev")
_MOST_BYTES = 1 << 20
_URL = re.compile(rb"https?://[\x21-\x7e]{1,2000}?\.whl")
_FILE = re.compile(rb"[A-Za-z0-9._+!-]{1,300}\.whl")


@frozen
class Wheel:
    """A wheel that uv has unpacked: sha256 (hex), file name, and where it came from, "" for a local file."""

    sha256: str
    name: str
    url: str


def not_ours(cache: Path) -> str:
    """Return why a cache must not be used: somebody else could change what is unpacked in it; "" if it may.

    uv looks at the hash of a wheel when it unpacks it, and not again.
    """
    try:
        status = cache.stat()
    except OSError:
        return ""  # not made yet
    if status.st_uid != os.geteuid():
        return f"{cache} is of another user"
    return f"others can write to {cache}" if status.st_mode & WRITABLE_BY_OTHERS else ""


def wheel_of(cache: Path, dist: InstalledDist, allowed: Collection[str]) -> Wheel | None:
    """Return the wheel with one of the ``allowed`` hashes that has the files of a distribution."""
    for pointer, unpacked in _unpacked(cache, dist):
        data = pointer.read_bytes()
        sha256 = next((item for item in sorted(allowed) if item.encode() in data), None)
        if sha256 is not None and _is_of(dist, unpacked):
            url, name = _URL.search(data), _FILE.search(data)
            place = without_login(url[0].decode()) if url else ""
            return Wheel(sha256, name[0].decode() if name else place.rpartition("/")[2], place)
    return None


def _unpacked(cache: Path, dist: InstalledDist) -> Iterator[tuple[Path, Path]]:
    """Yield the pointers to wheels of this name and version, each with the folder of the unpacked files."""
    pattern = f"wheels-v*/**/{glob.escape(dist.name)}/{glob.escape(dist.version)}-*"
    for pointer in sorted(cache.glob(pattern)):
        unpacked = pointer.with_name(pointer.name.removesuffix(pointer.suffix))
        small = pointer.suffix in _POINTERS and pointer.is_file() and pointer.stat().st_size < _MOST_BYTES
        if small and unpacked.is_dir():
            yield pointer, unpacked


def _is_of(dist: InstalledDist, unpacked: Path) -> bool:
    """Whether all files of an unpacked wheel are installed, by their hashes; scripts are changed."""
    with contextlib.suppress(OSError, ValueError, StopIteration):
        found = next(item for item in installed_dists(unpacked) if item.name == canonicalize_name(dist.name))
        return _hashes(record_entries(found)) <= _hashes(record_entries(dist))
    return False


def _hashes(entries: list[RecordEntry]) -> set[str]:
    return {entry.checksum for entry in entries if entry.checksum and ".data/scripts/" not in entry.name}
