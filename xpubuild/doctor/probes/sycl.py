"""The output of sycl-ls, if it is on the caller's PATH."""

from __future__ import annotations

import re
import shutil

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.probes.children import Ending, child
from xpubuild.frozen import frozen

# Older: "[ext_oneapi_level_zero:gpu:0] Intel...", newer: "[level_zero:gpu][level_zero:0] Intel...".
_LINE = re.compile(r"\[(?:ext_oneapi_)?(?P<backend>[a-z_]+):(?P<kind>[a-z]+)(?::\d+)?\]", re.IGNORECASE)


@frozen
class SyclDevices:
    """``program`` is None where there is no sycl-ls; ``lines`` are those that name a device."""

    program: str | None
    ending: Ending | None = None
    lines: tuple[str, ...] = ()

    def count(self, backend: str, kind: str = "gpu") -> int:
        """Return how many devices of a backend and kind are listed."""
        found = (_LINE.match(line) for line in self.lines)
        return sum(1 for match in found if match and (match["backend"], match["kind"]) == (backend, kind))


@once
def sycl_devices(look: Look) -> SyclDevices:
    """Run sycl-ls as the caller would."""
    program = shutil.which("sycl-ls", path=look.environ.get("PATH", ""))
    if program is None:
        return SyclDevices(None)
    ending = child(look, [program])
    lines = tuple(line.strip() for line in ending.text.splitlines() if _LINE.match(line.strip()))
    return SyclDevices(program, ending, lines)
