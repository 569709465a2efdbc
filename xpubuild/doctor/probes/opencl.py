"""What OpenCL lists: the installable drivers by their files, and the GPUs, counted in a child."""

from __future__ import annotations

from xpubuild.doctor.kit import Look, once
from xpubuild.doctor.probes.children import Ending, script
from xpubuild.frozen import frozen
from xpubuild.machine.readers import entries, exists, read_text

VENDORS = "/etc/OpenCL/vendors"
_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_INTEL = "igdrcl"


@frozen
class OpenclGpus:
    """``gpus`` are the names of Intel's GPUs."""

    ending: Ending
    gpus: tuple[str, ...] = ()


@once
def opencl_gpus(look: Look) -> OpenclGpus:
    """Count GPUs as the caller's programs would."""
    ending = script(look, "opencl_child.py")
    return OpenclGpus(ending, tuple(ending.value("gpus", ())))


def registered(look: Look) -> dict[str, str]:
    """Return the files of /etc/OpenCL/vendors that name Intel's GPU library -> that library."""
    found = {}
    for path in entries(look.path(VENDORS), look.root):
        library = (read_text(path, look.root) or "").strip() if path.suffix == ".icd" else ""
        if _INTEL in library:
            found[f"{VENDORS}/{path.name}"] = library
    return found


def library_exists(look: Look, library: str) -> bool:
    """Whether a registered library exists; one without a folder is searched for like the loader does."""
    if library.startswith("/"):
        return exists(look.path(library))
    return any(exists(look.path(f"{folder}/{library}")) for folder in _FOLDERS)
