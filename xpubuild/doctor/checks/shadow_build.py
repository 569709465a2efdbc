"""Packages and variables that affect manual builds."""

from __future__ import annotations

from collections.abc import Iterator

from xpubuild.doctor.fixes import remove_command
from xpubuild.doctor.kit import BUILD, Look, Outcome, check, commas, finding, ok, real, todo
from xpubuild.doctor.look import libraries
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
            if hit and not any(real(folder).is_relative_to(own) for own in mine):
                yield f"{variable} contains {folder} with {hit}"
