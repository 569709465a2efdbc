"""Proves that what was unpacked for a build is still there."""

from __future__ import annotations

import json
import os
import shlex
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from xpubuild.errors import SourceIntegrityError
from xpubuild.frozen import frozen
from xpubuild.supply.archives.model import LIST


def files_below(into: Path) -> Iterator[tuple[str, int]]:
    """Yield (path below ``into``, size) of every file, in one order."""
    for folder, below, names in os.walk(into):
        below.sort()
        for name in sorted(names):
            path = Path(folder, name)
            yield path.relative_to(into).as_posix(), path.lstat().st_size


def unpacked_stamp(into: Path) -> int:
    """Return a number that changes when one of the files does, by size or time."""
    total = 0
    for path, size in files_below(into):
        changed = (into / path).lstat().st_mtime_ns
        total = zlib.crc32(f"{path} {size} {changed}".encode("utf-8", "surrogateescape"), total)
    return total


@frozen
class UnpackedProof:
    """The proof that what was unpacked for a build is still there, file by file with its size."""

    into: str

    def describe(self) -> str:
        """Return what is checked."""
        return "the archives that the build would download are unpacked, with all their files"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "unpacked", "into": self.into}

    def check(self) -> dict[str, Any]:
        """Return the archives with their hashes.

        Raises:
            SourceIntegrityError: a file is missing or has another size.
        """
        into = Path(self.into)
        try:
            document = json.loads((into / LIST).read_text("utf-8"))
            files, archives = dict(document["files"]), list(document["archives"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise self._broken(LIST, str(error)) from error
        here = dict(files_below(into))
        for path, size in files.items():
            if here.get(path) != size:
                found = f"it has {here[path]} bytes, not {size}" if path in here else "it is missing"
                raise self._broken(path, found)
        return {"archives": archives, "files": len(files)}

    def _broken(self, path: str, why: str) -> SourceIntegrityError:
        return SourceIntegrityError(
            f"{Path(self.into) / path} cannot be used for the build",
            why=why,
            fix="remove that folder, then run the same command again",
            commands=(f"rm -r -- {shlex.quote(self.into)}",),
            evidence={"folder": self.into},
        )
