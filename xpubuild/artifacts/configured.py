"""The proof of a configure step: CMake has written a build for the source tree."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xpubuild.artifacts.sycl_commands import home_of
from xpubuild.errors import BuildError
from xpubuild.frozen import frozen


def configured_folder(source: str, folders: Sequence[str]) -> Path | None:
    """Return the first of some folders that holds the build of a source tree; None where none does."""
    for folder in map(Path, folders):
        if (folder / "build.ninja").is_file() and home_of(folder) == os.path.realpath(source):
            return folder
    return None


@frozen
class ConfiguredProof:
    """One of ``folders`` holds what CMake writes at the end of a configuration of ``source``."""

    source: str
    folders: tuple[str, ...]

    def describe(self) -> str:
        """Return what is checked."""
        return "CMake wrote the build files"

    def key(self) -> dict[str, Any]:
        """Return what the check depends on."""
        return {"proof": "configured", "source": self.source, "folders": list(self.folders)}

    def check(self) -> dict[str, Any]:
        """Return where the build files are."""
        folder = configured_folder(self.source, self.folders)
        if folder is None:
            raise BuildError(
                "the configuration ended without an error, but wrote no build files",
                why=f"none of {', '.join(self.folders)} has a build.ninja of {self.source}",
                fix="read CMake's messages in the log",
            )
        return {"build": str(folder)}
