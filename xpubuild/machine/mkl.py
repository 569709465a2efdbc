"""Checks that the environment has the static MKL that the recipe pins."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from packaging.version import Version

from xpubuild.engine.model import SimpleProof
from xpubuild.errors import ToolchainError
from xpubuild.frozen import frozen

#: What a static link against the sequential or the GNU OpenMP threading layer takes.
ARCHIVES = ("libmkl_core.a", "libmkl_intel_lp64.a", "libmkl_sequential.a", "libmkl_gnu_thread.a")
HEADERS = ("mkl.h", "mkl_version.h")
DISTRIBUTIONS = ("mkl_static", "mkl_include")
_AR_MAGIC = b"!<arch>\n"
_MACRO = re.compile(
    r"^#define\s+(__INTEL_MKL__|__INTEL_MKL_UPDATE__|INTEL_MKL_VERSION)\s+(\d+)", re.MULTILINE
)
_DIST_INFO = re.compile(r"([A-Za-z0-9_.]+)-([^-]+)\.dist-info")


@frozen
class MklStaticProof(SimpleProof):
    """``version`` is the pinned one ('2026.2.0'), or None where the recipe pins none."""

    env: str
    version: str | None

    def describe(self) -> str:
        """Say what is proved."""
        return "static MKL" + (f" {self.version}" if self.version else "") + " with its headers is installed"

    def check(self) -> dict[str, Any]:
        """Return sizes and versions.

        Raises:
            ToolchainError: an archive or header is missing or damaged, or the version is another.
        """
        root = Path(self.env)
        sizes = {name: self._archive(root / "lib" / name) for name in ARCHIVES}
        for name in HEADERS:
            if not (root / "include" / name).is_file():
                raise self._error(f"include/{name} is missing")
        macros = dict(_MACRO.findall((root / "include/mkl_version.h").read_text("utf-8", "replace")))
        distributions = self._distributions(root)
        self._compare(macros, distributions)
        return {"archives": sizes, "macros": macros, "distributions": distributions}

    def _archive(self, path: Path) -> int:
        try:
            with path.open("rb") as stream:
                magic = stream.read(len(_AR_MAGIC))
            size = path.stat().st_size
        except OSError as error:
            raise self._error(f"lib/{path.name} cannot be read: {error.strerror}") from error
        if magic != _AR_MAGIC or size == len(_AR_MAGIC):
            raise self._error(f"lib/{path.name} is empty or not a static library ({size} bytes)")
        return size

    def _distributions(self, root: Path) -> dict[str, str]:
        found: dict[str, str] = {}
        for folder in root.glob("lib/python3*/site-packages/*.dist-info"):
            match = _DIST_INFO.fullmatch(folder.name)
            if match and match[1].lower() in DISTRIBUTIONS:
                found[match[1].lower()] = match[2]
        return found

    def _compare(self, macros: dict[str, str], distributions: dict[str, str]) -> None:
        """Compare both records of the version.

        The header states year and update only: its patch macro is absent before 2025 and says 0 in 2025.3.1,
        so the third number comes from the installed packages.
        """
        if self.version is None:
            return
        wanted = Version(self.version)
        in_header = f"{macros.get('__INTEL_MKL__', '?')}.{macros.get('__INTEL_MKL_UPDATE__', '?')}"
        if in_header != f"{wanted.major}.{wanted.minor}":
            raise self._error(f"include/mkl_version.h is from MKL {in_header}, but {self.version} is pinned")
        for name in DISTRIBUTIONS:
            if name in distributions and Version(distributions[name]) != wanted:
                raise self._error(
                    f"the package {name} is {distributions[name]}, but {self.version} is pinned"
                )
            if name not in distributions:
                raise self._error(f"the package {name} is not installed in the environment")

    def _error(self, why: str) -> ToolchainError:
        return ToolchainError(
            "the static MKL of the environment is incomplete",
            why=f"{why} (in {self.env})",
            fix="run the same command again: the step that installs the toolchain will run again",
            evidence={"env": self.env},
        )
