"""What a conda lock holds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import field

from xpubuild.errors import RecipeError
from xpubuild.frozen import frozen

#: The platform of every lock: XPU builds are for 64-bit x86 Linux.
PLATFORM = "linux-64"
EXTENSIONS = (".conda", ".tar.bz2")
#: What a lock may count on, the same on every machine: glibc as in manylinux_2_28, no GPU of NVIDIA.
VIRTUAL = (
    ("__unix", "0", "0"),
    ("__linux", "5.10", "0"),
    ("__glibc", "2.28", "0"),
    ("__archspec", "1", "x86_64"),
)


@frozen
class CondaPackage:
    """One package archive of a lock. ``size`` is in bytes, None where the lock does not say.

    ``dependencies`` are package name -> version constraint ('' for any), virtual packages (``__glibc``)
    among them. ``url`` carries no credentials.
    """

    name: str
    version: str
    build: str
    filename: str
    url: str
    sha256: str
    md5: str
    size: int | None = None
    dependencies: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def subdir(self) -> str:
        """``linux-64`` or ``noarch``."""
        return self.url.rsplit("/", 2)[-2]

    @property
    def channel(self) -> str:
        """URL of the channel, without a slash at its end."""
        return self.url.rsplit("/", 2)[0]

    @property
    def title(self) -> str:
        """Name and version, for messages."""
        return f"{self.name} {self.version}"


@frozen
class CondaLock:
    """A lock: packages by name, the channels that were asked, and what was left out of the solution."""

    packages: tuple[CondaPackage, ...]
    channels: tuple[str, ...]
    content_hash: str
    left_out: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """One number for what the lock installs."""
        lines = sorted(f"{item.filename} {item.sha256}" for item in self.packages)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def python(self) -> str:
        """The version of Python in the lock.

        Raises:
            RecipeError: it has none.
        """
        for package in self.packages:
            if package.name == "python":
                return package.version
        raise RecipeError(
            "the conda lock has no python",
            why="everything else is installed into and built with the environment's Python",
            fix="add python to the recipe's toolchain.conda.packages",
        )
