"""The installed torch and its packages, read from files; torch is never imported."""

from __future__ import annotations

import re
from pathlib import Path

from xpubuild.artifacts.site_packages import InstalledDist
from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.look.sites import Site, site
from xpubuild.frozen import frozen
from xpubuild.machine.readers import exists, read_text


@frozen
class Torch:
    """The installed torch: ``version`` is that in version.py; ``cuda`` and ``hip`` are versions, or empty.

    ``xpu`` is whether there is a libtorch_xpu.so: version.py of XPU builds up to 2.6 does not show it.
    """

    folder: Path
    version: str
    cuda: str
    hip: str
    xpu: bool
    dist: InstalledDist | None
    python: Site

    @property
    def kind(self) -> str:
        """What it was built for, in words."""
        if self.xpu:
            return "XPU"
        return f"CUDA {self.cuda}" if self.cuda else f"ROCm {self.hip}" if self.hip else "the CPU"


@once
def torch_of(look: Look) -> Torch | None:
    """Return the torch that the selected Python would import, or None."""
    python = site(look)
    folder = python.package("torch") if python else None
    if python is None or folder is None:
        return None
    text = read_text(folder / "version.py", look.root) or ""
    version, cuda, hip = (_first(name, text) for name in ("__version__", "cuda", "hip"))
    dist = python.get("torch")
    return Torch(
        folder,
        version or (dist.version if dist else ""),
        cuda,
        hip,
        exists(folder / "lib" / "libtorch_xpu.so", look.root),
        dist,
        python,
    )


def cuda_of(folder: Path) -> str:
    """Return the CUDA version that a package such as torchvision was built with, or an empty text."""
    return _first("cuda", read_text(folder / "version.py") or "")


def _first(name: str, text: str) -> str:
    """Return a text that a module assigns to a name, or an empty one."""
    found = re.search(rf"^{name} *(?:: *[^=]+)?= *['\"]([^'\"]+)['\"]", text, re.MULTILINE)
    return found[1] if found else ""
