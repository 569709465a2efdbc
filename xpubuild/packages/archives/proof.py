"""Proves that what was unpacked for a build is still there."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xpubuild.errors import SourceIntegrityError
from xpubuild.packages.archives.model import LIST


def files_below(into: Path) -> Iterator[tuple[str, int]]:
    """Yield (path below ``into``, size) of every file."""
    for folder, _, names in os.walk(into):
        for name in names:
            path = Path(folder, name)
            yield path.relative_to(into).as_posix(), path.lstat().st_size


@dataclass(frozen=True)
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
            fix="run the same command again; the archives are unpacked again",
            evidence={"folder": self.into},
        )
