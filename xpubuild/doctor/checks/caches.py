"""Compile caches of Triton and Inductor that are older than torch or the driver."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from xpubuild.doctor.kit import RUN, Look, Outcome, check, finding, ok, todo
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.torches import Torch, torch_of

_GIB = 1 << 30
_MOST_SECONDS = 1.0
_MOST_OBJECTS = 40
_LARGE_BYTES = 20 * _GIB
_DRIVER = "libze_intel_gpu.so*"


@dataclass
class Scan:
    """Facts about one cache: its size, its oldest file, and the SYCL major versions that its objects need."""

    folder: Path
    size: int = 0
    oldest: float = float("inf")
    majors: dict[int, Path] = field(default_factory=dict)


@check("caches.stale", severity="warn", profiles=RUN, families="B-two-sycl-runtimes-or-stale-jit-cache")
def caches_stale(look: Look) -> Outcome:
    """Compile caches are not stale.

    Triton (`~/.triton/cache`, `TRITON_CACHE_DIR`, `TRITON_HOME`) and Inductor
    (`/tmp/torchinductor_$USER`, `TORCHINDUCTOR_CACHE_DIR`) cache compiled launchers. Up to Triton 3.7
    the cache keys do not include the SYCL version, so after an update of oneAPI or torch, a cached
    object that needs another `libsycl.so.N` is loaded: `libsycl.so.7: cannot open shared object file`,
    or a crash. This check reads the libraries that cached objects need, compares the age of the cache
    with that of torch and the driver, and reports caches larger than 20 GiB. It stops searching after
    one second.

    You can delete these folders; the only cost is recompilation. To give each environment its own
    cache, set both variables.
    """
    torch = torch_of(look)
    places = [folder for folder in _places(look) if folder.is_dir()]
    if not places:
        return ok("there are no compile caches")
    until = time.monotonic() + _MOST_SECONDS
    scans = [_scan(folder, until) for folder in places]
    wanted = _major_of(torch)
    problems = {
        look.shown(scan.folder): problem
        for scan in scans
        if (problem := _problem(scan, wanted, _changed(look, torch)))
    }
    evidence = {"caches": {look.shown(scan.folder): scan.size for scan in scans}}
    if not problems:
        return ok(", ".join(look.shown(folder) for folder in places), **evidence)
    told = "; ".join(f"{place} {problem}" for place, problem in problems.items())
    fix = todo("remove them; they are rebuilt when needed", *(f"rm -rf '{place}'" for place in problems))
    return finding(told, fix, **evidence)


def _places(look: Look) -> Iterator[Path]:
    mine = look.home
    environ = look.environ
    if environ.get("TRITON_CACHE_DIR"):
        yield look.path(environ["TRITON_CACHE_DIR"])
    elif environ.get("TRITON_HOME"):
        yield look.path(environ["TRITON_HOME"]) / ".triton" / "cache"
    elif mine is not None:
        yield mine / ".triton" / "cache"
    if environ.get("TORCHINDUCTOR_CACHE_DIR"):
        yield look.path(environ["TORCHINDUCTOR_CACHE_DIR"])
    else:
        user = environ.get("USER") or environ.get("LOGNAME", "")
        if user:
            yield look.path(environ.get("TMPDIR") or "/tmp") / f"torchinductor_{user}"  # noqa: S108 - Inductor's


def _scan(folder: Path, until: float) -> Scan:
    scan = Scan(folder)
    objects = 0
    for parent, _, names in os.walk(folder):
        if time.monotonic() > until:
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


def _changed(look: Look, torch: Torch | None) -> tuple[float, str]:
    """Return when the driver or torch was installed last, and which of the two it was."""
    driver = libraries.find_all(_DRIVER, libraries.system_folders(look))
    # ctime: packages and wheels keep the modification times of the machine that made them.
    times = [(place.stat().st_ctime, "the driver") for place in driver]
    if torch is not None and torch.xpu:
        times.append(((torch.folder / "lib" / "libtorch_xpu.so").stat().st_ctime, f"torch {torch.version}"))
    return max(times, default=(0.0, ""))


def _problem(scan: Scan, wanted: int | None, changed: tuple[float, str]) -> str:
    foreign = sorted(major for major in scan.majors if wanted is not None and major != wanted)
    if foreign:
        return f"contains objects for libsycl.so.{foreign[0]}, but torch uses libsycl.so.{wanted}"
    if scan.size and scan.oldest < changed[0]:
        return f"is older than {changed[1]}"
    if scan.size > _LARGE_BYTES:
        return f"uses {scan.size / _GIB:.0f} GiB"
    return ""
