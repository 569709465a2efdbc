"""What the SYCL runtime itself lists, asked through its loader: wheels bring no sycl-ls."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.sites import Site, site
from xpubuild.doctor.probes.children import Ending, script
from xpubuild.frozen import frozen

LOADER = "libur_loader.so.0"
# The loader tries each adapter beside itself, then by name alone; those that are not installed are no fault.
_FAILED = re.compile(
    r"failed to load adapter '(?P<adapter>[^']{1,400})' with error: (?P<why>.{1,400}?)(?=<LOADER>|\n|$)"
)
LOG = "level:info;output:stderr"


@frozen
class UnifiedRuntime:
    """``loader`` is None where there is none; ``failed`` are installed adapters and why they do not load."""

    loader: Path | None
    ending: Ending | None = None
    failed: tuple[tuple[str, str], ...] = ()
    adapters: tuple[dict[str, Any], ...] = ()

    def devices(self, backend: str) -> int:
        """Return how many devices a backend has."""
        found = [
            platform for item in self.adapters if item["adapter"] == backend for platform in item["platforms"]
        ]
        return sum(int(platform["devices"]) for platform in found)


def folders(look: Look, python: Site | None) -> Iterator[Path]:
    """Yield where a SYCL runtime is looked for: LD_LIBRARY_PATH, then ``lib`` of the environment."""
    yield from look.listed("LD_LIBRARY_PATH")
    if python is not None:
        yield from (prefix / "lib" for prefix in python.prefixes if prefix.name != "usr")


@once
def unified_runtime(look: Look) -> UnifiedRuntime:
    """Ask the loader that the caller's programs would use."""
    loader = libraries.find(LOADER, folders(look, site(look)))
    if loader is None:
        return UnifiedRuntime(None)
    environ = {**look.environ, "UR_LOG_LOADER": LOG}
    ending = script(look, "ur_child.py", environ, arguments=(str(loader),))
    adapters = tuple(record for record in ending.records if "adapter" in record)
    return UnifiedRuntime(loader, ending, failures(ending.log), adapters)


def failures(log: str) -> tuple[tuple[str, str], ...]:
    """Return the adapters that are installed and do not load, with what the loader of the system said."""
    found = [(match["adapter"], match["why"].strip()) for match in _FAILED.finditer(log)]
    return tuple((adapter, why) for adapter, why in found if not _absent(adapter, why))


def _absent(adapter: str, why: str) -> bool:
    return why.startswith(f"{adapter}: cannot open shared object file")


def names(found: Sequence[tuple[str, str]]) -> str:
    """Return adapters and reasons as text, each adapter once."""
    return "; ".join(dict.fromkeys(f"{Path(adapter).name}: {why}" for adapter, why in found))
