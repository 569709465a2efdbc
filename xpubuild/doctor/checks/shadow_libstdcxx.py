"""Whether the libstdc++ that comes first is new enough for the driver."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, finding, ok, real, skip, todo
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.sites import library_folders, site

_DRIVER = (
    "libze_intel_gpu.so*", "libze_loader.so*", "libigc.so*", "libigdfcl.so*", "libigdgmm.so*",
    "libOpenCL.so.1", "libsycl.so.[0-9]*", "libur_adapter_level_zero*.so*",
)  # fmt: skip


@check("shadow.libstdcxx", profiles=RUN)
def shadow_libstdcxx(look: Look) -> Outcome:
    """The libstdc++ that is found first is new enough for the driver.

    A process loads only one libstdc++: the first that is found. In a conda environment that is conda's,
    which is often older than the one that the distribution's driver was linked with. The Level Zero
    driver then cannot be loaded, and `torch.xpu.is_available()` is False without a message. This check
    reads the `GLIBCXX` and `CXXABI` versions that the driver, its compiler and the loader need
    (`libze_intel_gpu`, `libze_loader`, `libigc`, `libigdfcl`, `libigdgmm`, `libOpenCL`, `libsycl`,
    `libur_adapter_level_zero`) from their files, and compares them with those of the first libstdc++.
    """
    first = _first(look)
    system = libraries.find(libraries.LIBSTDCXX, libraries.system_folders(look))
    place = first or system
    offered = libraries.elf_of(place) if place else None
    if place is None or offered is None:
        return skip("no libstdc++ was found to compare with")
    needing = [*_driver_files(look)]
    lacking = {look.shown(user): _missing(user, offered.versions_defined) for user in needing}
    short = {user: missing for user, missing in lacking.items() if missing}
    name, has = look.shown(place), libraries.newest(offered.versions_defined)
    evidence = {"libstdcxx": name, "offers": has, "short": short}
    if not needing:
        return skip("no driver library that needs libstdc++ was found", **evidence)
    if not short:
        return ok(f"{name} provides {has}, which is sufficient", **evidence)
    user, wanting = next(iter(short.items()))
    detail = f"{name} provides up to {has}, but {user} needs {commas(wanting)}"
    return finding(detail, _fix(look, first, system), **evidence)


def _first(look: Look) -> Path | None:
    """Return the libstdc++ that comes before the system's: preloaded, conda's, or on LD_LIBRARY_PATH."""
    if preloaded := _preloaded(look):
        return preloaded
    python, folders = site(look), list[Path]()
    if python is not None:
        # The interpreter's DT_RPATH applies to everything that it loads.
        program = real(python.executable)
        elf = libraries.elf_of(program)
        folders += libraries.search_folders(program, elf) if elf is not None and not elf.runpath else ()
        # Every program and library of conda has an RPATH that leads to this folder.
        folders += [python.conda / "lib"] if python.conda is not None else []
    return libraries.find(libraries.LIBSTDCXX, [*folders, *look.listed("LD_LIBRARY_PATH")])


def _fix(look: Look, first: Path | None, system: Path | None) -> Fix:
    if first is not None and (first.parent.parent / "conda-meta").is_dir():
        preload = [f"export LD_PRELOAD={look.shown(system)}"] if system else []
        upgrade = "conda install -c conda-forge 'libstdcxx-ng>=13'"
        return todo("upgrade conda's libstdc++, or make the system's the first", upgrade, *preload)
    if first is not None:
        if _preloaded(look):
            return todo("do not preload that libstdc++", "unset LD_PRELOAD")
        return todo("remove the folder of that libstdc++ from LD_LIBRARY_PATH", "unset LD_LIBRARY_PATH")
    return todo(
        "upgrade the system's libstdc++, or install driver packages for this distribution's release",
        *install_command(look, debian=["libstdc++6"], rhel=["libstdc++"], suse=["libstdc++6"]),
    )


def _preloaded(look: Look) -> Path | None:
    entries = map(Path, re.split(r"[:\s]+", look.environ.get("LD_PRELOAD", "")))
    return next((place for place in entries if place.name == libraries.LIBSTDCXX and place.is_file()), None)


def _missing(user: Path, offered: frozenset[str]) -> list[str]:
    elf = libraries.elf_of(user)
    wanted = elf.versions_needed.get(libraries.LIBSTDCXX, ()) if elf else ()
    return sorted(libraries.cxx_versions(wanted) - offered)


def _driver_files(look: Look) -> Iterator[Path]:
    folders = [*look.listed("LD_LIBRARY_PATH"), *libraries.system_folders(look), *library_folders(site(look))]
    for pattern in _DRIVER:
        yield from (place for place in libraries.find_all(pattern, folders) if place.suffix != ".py")
