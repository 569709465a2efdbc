"""Compile caches of Triton and Inductor that are older than torch or the driver."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import RUN, Look, Outcome, check, commas, finding, ok, todo
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.sites import Torch, torch_of

_MOST_SECONDS = 1.0
_MOST_OBJECTS = 40
_DRIVER = "libze_intel_gpu.so*"


@check("caches.stale", severity="warn", profiles=RUN)
def caches_stale(look: Look) -> Outcome:
    """Compile caches are not stale.

    Triton (`~/.triton/cache`, `TRITON_CACHE_DIR`, `TRITON_HOME`) and Inductor
    (`/tmp/torchinductor_$USER`, `TORCHINDUCTOR_CACHE_DIR`) cache compiled launchers. Up to Triton 3.7
    the cache keys do not include the SYCL version, so after an update of oneAPI or torch, a cached
    object that needs another `libsycl.so.N` is loaded: `libsycl.so.7: cannot open shared object file`,
    or a crash. This check reads the libraries that cached objects need, and compares the age of the cache
    with that of torch and the driver. It stops searching after one second.

    You can delete these folders; the only cost is recompilation. To give each environment its own
    cache, set both variables.
    """
    torch = torch_of(look)
    places = [folder for folder in _places(look) if folder.is_dir()]
    if not places:
        return ok("there are no compile caches")
    until = time.monotonic() + _MOST_SECONDS
    scans = {look.shown(folder): _scan(folder, until) for folder in places}
    wanted = min(_majors(torch.folder / "lib" / "libc10_xpu.so"), default=None) if torch else None
    changed = _changed(look, torch)
    problems = {name: listed for name, scan in scans.items() if (listed := _problem(*scan, wanted, changed))}
    if not problems:
        return ok(commas(scans), caches=list(scans))
    listed = "; ".join(f"{place} {problem}" for place, problem in problems.items())
    lines = (f"rm -rf '{place}'" for place in problems)
    return finding(listed, todo("remove them; they are rebuilt when needed", *lines), caches=list(scans))


def _places(look: Look) -> Iterator[Path]:
    environ = look.environ
    if environ.get("TRITON_CACHE_DIR"):
        yield look.path(environ["TRITON_CACHE_DIR"])
    elif home := (look.path(environ["TRITON_HOME"]) if environ.get("TRITON_HOME") else look.home):
        yield home / ".triton" / "cache"
    if environ.get("TORCHINDUCTOR_CACHE_DIR"):
        yield look.path(environ["TORCHINDUCTOR_CACHE_DIR"])
    elif user := environ.get("USER") or environ.get("LOGNAME", ""):
        yield look.path(environ.get("TMPDIR") or "/tmp") / f"torchinductor_{user}"  # noqa: S108 - Inductor's


def _scan(folder: Path, until: float) -> tuple[float, set[int]]:
    """Return the time of the oldest file of a cache, and the SYCL runtimes that its objects need."""
    oldest, majors, objects = float("inf"), set[int](), 0
    for parent, _, names in os.walk(folder):
        for place in (Path(parent) / name for name in names if time.monotonic() < until):
            with contextlib.suppress(OSError):
                oldest = min(oldest, place.stat().st_mtime)
                if place.suffix == ".so" and objects < _MOST_OBJECTS:
                    objects += 1
                    majors |= _majors(place)
    return oldest, majors


def _majors(place: Path) -> set[int]:
    """Return the SYCL runtimes that a library needs."""
    elf = libraries.elf_of(place)
    found = (libraries.sycl_major(name) for name in (elf.needed if elf else ()))
    return {major for major in found if major is not None}


def _changed(look: Look, torch: Torch | None) -> tuple[float, str]:
    """Return when the driver or torch was installed last, and which of the two it was."""
    driver = libraries.find_all(_DRIVER, libraries.system_folders(look))
    # ctime: packages and wheels keep the modification times of the machine that made them.
    times = [(place.stat().st_ctime, "the driver") for place in driver]
    if torch is not None and torch.xpu:
        times.append(((torch.folder / "lib" / "libtorch_xpu.so").stat().st_ctime, f"torch {torch.version}"))
    return max(times, default=(0.0, ""))


def _problem(oldest: float, majors: set[int], wanted: int | None, changed: tuple[float, str]) -> str:
    foreign = sorted(majors - {wanted}) if wanted is not None else []
    if foreign:
        return f"contains objects for libsycl.so.{foreign[0]}, but torch uses libsycl.so.{wanted}"
    return f"is older than {changed[1]}" if oldest < changed[0] else ""
