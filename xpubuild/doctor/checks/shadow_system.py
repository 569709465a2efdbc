"""What stands in front of something else: system packages, variables, libfabric, libstdc++."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor import kit
from xpubuild.doctor.fixes import install_command, remove_command
from xpubuild.doctor.kit import BUILD, RUN, Fix, Look, Outcome, check, commas, finding, ok, skip, todo
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.sites import library_folders, site
from xpubuild.doctor.look.toolkits import compiler_of, sourced

_FOLDERS = ("/usr/local/include", "/usr/include")
_HEADERS = ("dnnl.hpp", "oneapi/dnnl/dnnl.hpp", "mkl/mkl.h", "mkl.h")


@check("shadow.system", severity="warn", profiles=BUILD)
def shadow_system(look: Look) -> Outcome:
    """No oneDNN or MKL from the distribution is installed.

    PyTorch compiles oneDNN from its own source tree. A `dnnl.hpp` in `/usr/include` or
    `/usr/local/include` (libdnnl-dev, or a `make install`) can be included instead, and the build fails
    with errors about missing members. An MKL in the system's library folders (libmkl-dev) is mixed with
    oneAPI's at link time, which causes undefined references.
    """
    places = (f"{folder}/{name}" for folder in _FOLDERS for name in _HEADERS)
    found = [name for name in places if look.path(name).is_file()]
    core = libraries.find("libmkl_core.so", libraries.system_folders(look))
    found += [look.shown(core)] if core else []
    if not found:
        return ok("neither oneDNN nor MKL is in the system folders")
    rpm = ("onednn-devel",)
    lines = remove_command(look, debian=("libdnnl-dev", "libmkl-dev"), rhel=rpm, suse=rpm)
    # Asked: other packages may depend on them.
    asking = (line.replace(" -y", "") for line in lines)
    fix = todo("remove the development packages during the build", *asking)
    return finding(f"the system has {commas(found)}", fix, found=found)


_FLAG_VARIABLES = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_ARGS")
_FLAGS = (("_GLIBCXX_USE_CXX11_ABI=0", "selects the old C++ ABI"), ("-Werror", "turns warnings into errors"))
_BY_VARIABLE = {
    "CPATH": ("dnnl.hpp", "oneapi/dnnl/dnnl.hpp", "mkl.h", "mpi.h", "sycl/sycl.hpp"),
    "C_INCLUDE_PATH": ("mkl.h", "mpi.h"),
    "CPLUS_INCLUDE_PATH": ("dnnl.hpp", "mkl.h", "mpi.h", "sycl/sycl.hpp"),
    "LIBRARY_PATH": ("libdnnl.so", "libmkl_core.so", "libmpi.so", "libsycl.so"),
    "CMAKE_PREFIX_PATH": tuple(f"lib/cmake/{name}" for name in ("dnnl", "mkl", "MKL", "tbb", "TBB")),
}


@check("shadow.variables", severity="warn", profiles=BUILD, live=True)
def shadow_variables(look: Look) -> Outcome:
    """No environment variable changes compiler flags or search paths.

    `CPATH`, `LIBRARY_PATH`, `CMAKE_PREFIX_PATH` and compiler flags affect every compilation started
    from a shell. xpubuild passes none of them to a build, but manual builds and extensions use them.
    The check reports values that are known to break or change a build: folders with oneDNN, MKL or MPI
    that do not belong to the sourced oneAPI, `-D_GLIBCXX_USE_CXX11_ABI=0`, `-Werror` and `WERROR` (GCC
    13 and newer warn more), and `USE_CUDA=1` together with XPU.
    """
    found = [*_flags(look), *_folders(look)]
    if not found:
        return ok("none of the known variables is set")
    names = list(dict.fromkeys(text.partition(" ")[0] for text in found))
    line = f"unset {' '.join(names)}"
    fix = todo("unset them for manual builds; xpubuild does not pass them on", line)
    return finding("; ".join(found), fix, variables=names)


def _flags(look: Look) -> Iterator[str]:
    for name in _FLAG_VARIABLES:
        for flag, meaning in _FLAGS:
            if flag in look.environ.get(name, ""):
                yield f"{name} {meaning} ({flag})"
    if look.environ.get("WERROR", "0") not in ("", "0", "OFF"):
        yield "WERROR turns warnings into errors"
    if look.environ.get("USE_CUDA", "0").upper() in ("1", "ON", "YES", "TRUE"):
        yield "USE_CUDA enables CUDA in addition to XPU"


def _folders(look: Look) -> Iterator[str]:
    chosen = compiler_of(look)
    mine = [*(item.folder for item in sourced(look)), *([chosen.path] if chosen else [])]
    for variable, names in _BY_VARIABLE.items():
        for folder in look.listed(variable):
            hit = next((name for name in names if (folder / name).exists()), None)
            if hit and not any(kit.real(folder).is_relative_to(own) for own in mine):
                yield f"{variable} contains {folder} with {hit}"


_FABRIC = "libfabric.so.1"
_PROVIDERS = "FI_PROVIDER_PATH"
_CCL = "CCL_OFI_LIBRARY_PATH"
#: What oneCCL takes before Intel MPI's own, and that before it asks the loader (uxlfoundation/oneCCL,
#: get_ofi_lib_path in src/atl/ofi).
_OF_CCL = (_CCL, "I_MPI_OFI_LIBRARY")
_ROOTS = ("I_MPI_ROOT", "CCL_ROOT")
#: Where Intel MPI has its own libfabric, from 2021.11 and before.
_OWN = ("opt/mpi/libfabric/lib", "libfabric/lib")


@check("shadow.libfabric", severity="warn", profiles=RUN, needs="gpu.present", live=True)
def shadow_libfabric(look: Look) -> Outcome:
    """MPI and oneCCL load one libfabric with its own providers.

    Intel MPI loads the first `libfabric.so.1` on `LD_LIBRARY_PATH`, or the system's. oneCCL loads the
    one in `CCL_OFI_LIBRARY_PATH`, or Intel MPI's own, or the same as Intel MPI. Both load the providers
    (`lib*-fi.so`) in the folders of `FI_PROVIDER_PATH`. oneAPI's scripts set this to Intel's providers;
    a module, or an older libfabric of the distribution, may take precedence.

    The check reads the ELF files and loads nothing. If the providers need an interface version that a
    libfabric does not have, that is a failure, because none of them can be loaded (``version
    `FABRIC_1.7' not found``, `fi_getinfo error: ret -61, providers 0`). Two different files for MPI and
    oneCCL, and an Intel libfabric without a path to its providers, are warnings.

    A site's own libfabric with its own providers, as on clusters with Slingshot, is accepted if
    `CCL_OFI_LIBRARY_PATH` refers to it too. Only programs with more than one process need any of this.
    """
    environ = look.environ
    if not any(environ.get(name) for name in (*_ROOTS, _PROVIDERS, *_OF_CCL)):
        return skip("neither oneAPI's MPI nor its oneCCL is in the environment")
    first = libraries.find(_FABRIC, (*look.listed("LD_LIBRARY_PATH"), *libraries.system_folders(look)))
    if first is None:
        return skip(f"no {_FABRIC} is on LD_LIBRARY_PATH or in the system's folders")
    roots = (environ.get(name, "") for name in _ROOTS)
    places = (look.path(root) / folder for root in roots if root.startswith("/") for folder in _OWN)
    own = libraries.find(_FABRIC, places)
    named = (Path(environ.get(name, "")) for name in _OF_CCL)
    of_ccl = next((path for path in named if path.is_absolute() and path.is_file()), own or first)
    providers = [item for folder in look.listed(_PROVIDERS) for item in _providers(folder)]
    evidence = {"mpi": str(first), "ccl": str(of_ccl), "providers": [str(item) for item in providers]}
    fix, loaded = _one_fabric(own or first), dict.fromkeys((kit.real(first), kit.real(of_ccl)))
    elfs = (libraries.elf_of(provider) for provider in providers)
    wanted = {name for elf in elfs if elf for name in elf.versions_needed.get(_FABRIC, ())}
    short = {str(path): lacks for path in loaded if (lacks := sorted(wanted - _has(path)))}
    if short:
        reported = "; ".join(f"{path} lacks {commas(lacks)}" for path, lacks in short.items())
        return kit.fail(f"{reported}, which the providers in {_PROVIDERS} need", fix, **evidence, short=short)
    problems = []
    if len(loaded) > 1:
        lacks = sorted(_has(of_ccl) - _has(first))
        age = f"; MPI's is older and lacks {commas(lacks)}" if lacks else ""
        problems.append(f"MPI loads {first}, oneCCL {of_ccl}: two copies in one process{age}")
    for path in loaded if not providers else ():
        if [*_providers(path.parent / "prov")]:
            why = "contains no provider" if environ.get(_PROVIDERS) else "is not set"
            problems.append(f"{_PROVIDERS} {why}, and {path} has its own in {path.parent / 'prov'}")
    if problems:
        return finding("; ".join(problems), fix, **evidence)
    count = f"{len(providers)} providers" if providers else "with built-in providers"
    return ok(f"{first}, {count}", **evidence)


def _providers(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.glob("lib*-fi.so")))


def _has(path: Path) -> frozenset[str]:
    elf = libraries.elf_of(path)
    return frozenset(elf.versions_defined) if elf else frozenset()


def _one_fabric(chosen: Path) -> Fix:
    folder = chosen.parent
    return todo(
        "make one libfabric the first for both, with its own providers: Intel's or the site's",
        f"export LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH",
        f"export {_CCL}={chosen}",
        f"export {_PROVIDERS}={folder}/prov" if (folder / "prov").is_dir() else f"unset {_PROVIDERS}",
    )


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
    return finding(detail, _newer_libstdcxx(look, first, system), **evidence)


def _first(look: Look) -> Path | None:
    """Return the libstdc++ that comes before the system's: preloaded, conda's, or on LD_LIBRARY_PATH."""
    if preloaded := _preloaded(look):
        return preloaded
    python, folders = site(look), list[Path]()
    if python is not None:
        # The interpreter's DT_RPATH applies to everything that it loads.
        program = kit.real(python.executable)
        elf = libraries.elf_of(program)
        folders += libraries.search_folders(program, elf) if elf is not None and not elf.runpath else ()
        # Every program and library of conda has an RPATH that leads to this folder.
        folders += [python.conda / "lib"] if python.conda is not None else []
    return libraries.find(libraries.LIBSTDCXX, [*folders, *look.listed("LD_LIBRARY_PATH")])


def _newer_libstdcxx(look: Look, first: Path | None, system: Path | None) -> Fix:
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
