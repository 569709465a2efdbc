"""Compile caches of Triton and Inductor that outlived what they were compiled for."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xpubuild.doctor.context import Context
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.places import home, inside, shown
from xpubuild.doctor.look.torches import Torch, torch_of
from xpubuild.doctor.model import Check, Fix, Outcome

_GIB = 1 << 30
_MOST_SECONDS = 1.0
_MOST_OBJECTS = 40
_LARGE_BYTES = 20 * _GIB
_DRIVER = "libze_intel_gpu.so*"


@dataclass
class Scan:
    """What was seen of one cache: its size, its first object, and SYCL majors that objects ask for."""

    folder: Path
    size: int = 0
    oldest: float = float("inf")
    majors: dict[int, Path] = field(default_factory=dict)
    whole: bool = True


class CachesStale(Check):
    """The compile caches are younger than the driver and torch, and ask for torch's SYCL runtime."""

    id = "caches.stale"
    title = "Compile caches are not stale"
    severity = "warn"
    profiles = frozenset({"run"})
    families = ("B-two-sycl-runtimes-or-stale-jit-cache",)
    explanation = """\
Triton (`~/.triton/cache`, `TRITON_CACHE_DIR`, `TRITON_HOME`) and Inductor (`/tmp/torchinductor_$USER`,
`TORCHINDUCTOR_CACHE_DIR`) keep compiled launchers. Up to Triton 3.7 their keys do not hold the SYCL
version, so after a change of oneAPI or torch an object that asks for another `libsycl.so.N` is loaded
again: `libsycl.so.7: cannot open shared object file`, or a crash. This reads what cached objects need,
compares the cache's age with that of torch and the driver, and tells caches above 20 GiB. It looks for
one second at most.

Removing these folders loses nothing but the time of compiling anew. Give each environment its own by
setting both variables.
"""

    def run(self, context: Context) -> Outcome:
        torch = context.probe(torch_of)
        places = [folder for folder in _places(context) if folder.is_dir()]
        if not places:
            return self.ok("there is none")
        until = time.monotonic() + _MOST_SECONDS
        scans = [_scan(folder, until) for folder in places]
        wanted = _major_of(torch)
        problems = {
            shown(context, scan.folder): problem
            for scan in scans
            if (problem := _problem(scan, wanted, _changed(context, torch)))
        }
        evidence = {"caches": {shown(context, scan.folder): scan.size for scan in scans}}
        if not problems:
            return self.ok(", ".join(shown(context, folder) for folder in places), **evidence)
        told = "; ".join(f"{place} {problem}" for place, problem in problems.items())
        fix = Fix("remove them; they are made anew", tuple(f"rm -rf '{place}'" for place in problems))
        return self.found(told, fix, **evidence)


def _places(context: Context) -> Iterator[Path]:
    mine = home(context)
    environ = context.environ
    if environ.get("TRITON_CACHE_DIR"):
        yield inside(context, environ["TRITON_CACHE_DIR"])
    elif environ.get("TRITON_HOME"):
        yield inside(context, environ["TRITON_HOME"]) / ".triton" / "cache"
    elif mine is not None:
        yield mine / ".triton" / "cache"
    if environ.get("TORCHINDUCTOR_CACHE_DIR"):
        yield inside(context, environ["TORCHINDUCTOR_CACHE_DIR"])
    else:
        user = environ.get("USER") or environ.get("LOGNAME", "")
        if user:
            yield inside(context, environ.get("TMPDIR") or "/tmp") / f"torchinductor_{user}"  # noqa: S108 - Inductor's


def _scan(folder: Path, until: float) -> Scan:
    scan = Scan(folder)
    objects = 0
    for parent, _, names in os.walk(folder):
        if time.monotonic() > until:
            scan.whole = False
            break
        for name in names:
            place = Path(parent) / name
            try:
                status = place.stat()
            except OSError:
                continue
            scan.size += status.st_size
            scan.oldest = min(scan.oldest, status.st_mtime)
            if name.endswith(".so") and objects < _MOST_OBJECTS:
                objects += 1
                _needs(place, scan)
    return scan


def _needs(place: Path, scan: Scan) -> None:
    elf = libraries.elf_of(place)
    for name in elf.needed if elf else ():
        major = libraries.sycl_major(name)
        if major is not None:
            scan.majors.setdefault(major, place)


def _major_of(torch: Torch | None) -> int | None:
    elf = libraries.elf_of(torch.folder / "lib" / "libc10_xpu.so") if torch else None
    majors = (libraries.sycl_major(name) for name in (elf.needed if elf else ()))
    return next((major for major in majors if major is not None), None)


def _changed(context: Context, torch: Torch | None) -> tuple[float, str]:
    """Return when the driver or torch was installed last, and which of the two it was."""
    driver = libraries.find_all(_DRIVER, libraries.system_folders(context))
    # ctime: packages and wheels keep the modification times of the machine that made them.
    times = [(place.stat().st_ctime, "the driver") for place in driver]
    if torch is not None and torch.xpu:
        times.append(((torch.folder / "lib" / "libtorch_xpu.so").stat().st_ctime, f"torch {torch.version}"))
    return max(times, default=(0.0, ""))


def _problem(scan: Scan, wanted: int | None, changed: tuple[float, str]) -> str:
    foreign = sorted(major for major in scan.majors if wanted is not None and major != wanted)
    if foreign:
        return f"has objects for libsycl.so.{foreign[0]}, and torch uses libsycl.so.{wanted}"
    if scan.size and scan.oldest < changed[0]:
        return f"is older than {changed[1]}"
    if scan.size > _LARGE_BYTES:
        return f"has {scan.size / _GIB:.0f} GiB"
    return ""
