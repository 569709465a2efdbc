"""What the runtimes list: OpenCL, sycl-ls, the unified runtime, torch; all are asked in subprocesses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.sites import Site, site
from xpubuild.doctor.probes.children import Ending, child, script
from xpubuild.frozen import frozen
from xpubuild.machine.readers import entries, exists, read_text

# ---- OpenCL

VENDORS = "/etc/OpenCL/vendors"
_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")


def registered(look: Look) -> dict[str, str]:
    """Return the files of /etc/OpenCL/vendors that name Intel's GPU library -> that library."""
    found = {}
    for path in entries(look.path(VENDORS), look.root):
        library = (read_text(path, look.root) or "").strip() if path.suffix == ".icd" else ""
        if "igdrcl" in library:
            found[f"{VENDORS}/{path.name}"] = library
    return found


def library_exists(look: Look, library: str) -> bool:
    """Whether a registered library exists; one without a folder is searched for like the loader does."""
    places = [library] if library.startswith("/") else [f"{folder}/{library}" for folder in _FOLDERS]
    return any(exists(look.path(place)) for place in places)


# ---- sycl-ls

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


# ---- the unified runtime: wheels have no sycl-ls

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
        found = (item["platforms"] for item in self.adapters if item["adapter"] == backend)
        return sum(int(platform["devices"]) for platforms in found for platform in platforms)


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
    ending = script(look, "ur_child.py", {**look.environ, "UR_LOG_LOADER": LOG}, arguments=(str(loader),))
    adapters = tuple(record for record in ending.records if "adapter" in record)
    return UnifiedRuntime(loader, ending, failures(ending.log), adapters)


def failures(log: str) -> tuple[tuple[str, str], ...]:
    """Return the adapters that are installed and do not load, with the message of the system's loader."""
    found = ((match["adapter"], match["why"].strip()) for match in _FAILED.finditer(log))
    missing = "{}: cannot open shared object file"
    return tuple((name, why) for name, why in found if not why.startswith(missing.format(name)))


def names(found: Sequence[tuple[str, str]]) -> str:
    """Return adapters and reasons as text, each adapter once."""
    return "; ".join(dict.fromkeys(f"{Path(adapter).name}: {why}" for adapter, why in found))


# ---- torch

#: Importing torch from a network file system is slow.
SECONDS = 20.0
#: The stage that is announced before the import.
IMPORTING = "import torch"
_ASK = """
import importlib.util, json, sys
sys.path[:] = [entry for entry in sys.path if entry]
spec = importlib.util.find_spec("torch")
if spec is None or spec.origin is None:
    sys.exit(print(json.dumps({"torch": None, "hollow": spec is not None})))
print(json.dumps({"stage": "import torch"}), flush=True)
import torch
print(json.dumps({"torch": torch.__version__, "stage": "torch.xpu.device_count"}), flush=True)
xpu = getattr(torch, "xpu", None)
built = bool(xpu) and bool(getattr(xpu, "_is_compiled", lambda: False)())
print(json.dumps({"built": built, "count": xpu.device_count() if built else 0}), flush=True)
"""


@frozen
class TorchCount:
    """``version`` is None without a torch that can be imported; ``built`` whether it is an XPU build.

    ``hollow`` is whether there is a folder torch without ``__init__.py``.
    """

    version: str | None = None
    built: bool = False
    count: int = 0
    ending: Ending | None = None
    hollow: bool = False

    @property
    def import_failed(self) -> bool:
        """Whether the import began and failed."""
        ending = self.ending
        failed = ending is not None and ending.how != "ok" and ending.stage == IMPORTING
        return self.version is None and failed


@once
def torch_count(look: Look) -> TorchCount:
    """Return the number of XPU devices of the selected interpreter's torch, read in a child: it may crash."""
    if look.python is None:
        return TorchCount()
    ending = child(look, [str(look.python), "-c", _ASK], seconds=SECONDS)
    version = str(ending.value("torch") or "") or None
    built, hollow = bool(ending.value("built")), bool(ending.value("hollow"))
    return TorchCount(version, built, int(ending.value("count", 0)), ending, hollow)
