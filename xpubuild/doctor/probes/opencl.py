"""What OpenCL lists: the installable drivers by their files, and the GPUs, counted in a child."""

from __future__ import annotations

from xpubuild.doctor.context import CheckContext
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


def opencl_gpus(context: CheckContext) -> OpenclGpus:
    """Count GPUs as the caller's programs would (use with ``CheckContext.probe``)."""
    ending = script(context, "opencl_child.py")
    return OpenclGpus(ending, tuple(ending.value("gpus", ())))


def registered(context: CheckContext) -> dict[str, str]:
    """Return the files of /etc/OpenCL/vendors that name Intel's GPU library -> that library."""
    found = {}
    for path in entries(context.path(VENDORS), context.root):
        library = (read_text(path, context.root) or "").strip() if path.suffix == ".icd" else ""
        if _INTEL in library:
            found[f"{VENDORS}/{path.name}"] = library
    return found


def library_exists(context: CheckContext, library: str) -> bool:
    """Whether a registered library exists; one without a folder is searched for like the loader does."""
    if library.startswith("/"):
        return exists(context.path(library))
    return any(exists(context.path(f"{folder}/{library}")) for folder in _FOLDERS)
