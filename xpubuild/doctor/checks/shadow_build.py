"""What of the system and of the shell would get into a build by hand."""

from __future__ import annotations

from collections.abc import Iterator

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.places import listed, real, shown
from xpubuild.doctor.look.toolkits import compiler_of, sourced
from xpubuild.doctor.model import Check, Fix, Outcome


class ShadowSystem(Check):
    """oneDNN and MKL of the distribution are not in front of the bundled ones."""

    id = "shadow.system"
    title = "No oneDNN or MKL of the distribution"
    severity = "warn"
    profiles = frozenset({"build"})
    families = ("L-onednn-or-mkl-shadowing",)
    explanation = """\
PyTorch compiles the oneDNN of its own tree. A `dnnl.hpp` in `/usr/include` or `/usr/local/include`
(libdnnl-dev, or a `make install`) can be included instead and breaks the build with errors about
missing members. An MKL in the loader's own folders (libmkl-dev) gets mixed with oneAPI's at link time:
undefined references.
"""

    def run(self, context: Context) -> Outcome:
        headers = [
            name
            for folder in ("/usr/local/include", "/usr/include")
            for name in (
                f"{folder}/dnnl.hpp",
                f"{folder}/oneapi/dnnl/dnnl.hpp",
                f"{folder}/mkl/mkl.h",
                f"{folder}/mkl.h",
            )
            if context.path(name).is_file()
        ]
        core = libraries.find("libmkl_core.so", libraries.system_folders(context))
        found = [*headers, *([shown(context, core)] if core else [])]
        if not found:
            return self.ok("neither oneDNN nor MKL is in the system's folders")
        names = ["libdnnl-dev", "libmkl-dev"]
        fix = Fix("remove the development packages for the time of the build", _remove(context, names))
        return self.found(f"the system has {', '.join(found)}", fix, found=found)


def _remove(context: Context, names: list[str]) -> tuple[str, ...]:
    installed = install_command(context, debian=names, rhel=["onednn-devel"], suse=["onednn-devel"])
    swap = (
        ("apt-get install -y", "apt-get remove"),
        ("dnf install -y", "dnf remove"),
        ("zypper install -y", "zypper remove"),
    )
    lines = [line for line in installed if "update" not in line]
    for old, new in swap:
        lines = [line.replace(old, new) for line in lines]
    return tuple(line for line in lines if "remove" in line)


class ShadowVariables(Check):
    """No variable of the shell changes what compilers and CMake take."""

    id = "shadow.variables"
    title = "No variable changes what compilers take"
    severity = "warn"
    profiles = frozenset({"build"})
    live = True
    families = (
        "L-onednn-or-mkl-shadowing",
        "J-host-compiler-version",
        "K-overlinked-oneapi-libs",
        "Z-single",
    )
    explanation = """\
`CPATH`, `LIBRARY_PATH`, `CMAKE_PREFIX_PATH` and compiler flags act on every compilation below a shell.
xpubuild hands none of them to a build; builds by hand, and extensions, get them. Reported is what is
known to break or to change one: folders with oneDNN, MKL or MPI that are not the sourced oneAPI's,
`-D_GLIBCXX_USE_CXX11_ABI=0`, `-Werror` and `WERROR` (GCC 13 and newer warn more), and `USE_CUDA=1`
beside XPU.
"""

    def run(self, context: Context) -> Outcome:
        found = [*_flags(context), *_folders(context)]
        if not found:
            return self.ok("none of the known ones is set")
        names = list(dict.fromkeys(text.partition(" ")[0] for text in found))
        fix = Fix(
            "unset them for builds by hand; xpubuild does not hand them on", (f"unset {' '.join(names)}",)
        )
        return self.found("; ".join(found), fix, variables=names)


_FLAG_VARIABLES = ("CFLAGS", "CXXFLAGS", "CPPFLAGS", "LDFLAGS", "CMAKE_ARGS")
_FLAGS = (
    ("_GLIBCXX_USE_CXX11_ABI=0", "asks for the old C++ ABI"),
    ("-Werror", "makes warnings errors"),
)
_BY_VARIABLE = {
    "CPATH": ("dnnl.hpp", "oneapi/dnnl/dnnl.hpp", "mkl.h", "mpi.h", "sycl/sycl.hpp"),
    "C_INCLUDE_PATH": ("mkl.h", "mpi.h"),
    "CPLUS_INCLUDE_PATH": ("dnnl.hpp", "mkl.h", "mpi.h", "sycl/sycl.hpp"),
    "LIBRARY_PATH": ("libdnnl.so", "libmkl_core.so", "libmpi.so", "libsycl.so"),
    "CMAKE_PREFIX_PATH": (
        "lib/cmake/dnnl",
        "lib/cmake/mkl",
        "lib/cmake/MKL",
        "lib/cmake/tbb",
        "lib/cmake/TBB",
    ),
}


def _flags(context: Context) -> Iterator[str]:
    for name in _FLAG_VARIABLES:
        for flag, meaning in _FLAGS:
            if flag in context.environ.get(name, ""):
                yield f"{name} {meaning} ({flag})"
    if context.environ.get("WERROR", "0") not in ("", "0", "OFF"):
        yield "WERROR makes warnings errors"
    if context.environ.get("USE_CUDA", "0").upper() in ("1", "ON", "YES", "TRUE"):
        yield "USE_CUDA asks for CUDA beside XPU"


def _folders(context: Context) -> Iterator[str]:
    mine = [item.folder for item in context.probe(sourced)]
    chosen = compiler_of(context)
    if chosen is not None:
        mine.append(chosen.path)
    for variable, names in _BY_VARIABLE.items():
        for folder in listed(context, variable):
            hit = next((name for name in names if (folder / name).exists()), None)
            if hit and not any(real(folder).is_relative_to(own) for own in mine):
                yield f"{variable} leads to {folder} with {hit}"
