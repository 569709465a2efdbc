"""Libraries that are found before those of oneAPI, the driver and torch."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.kit import BUILD, RUN, Look, Outcome, check, commas, finding, ok, real, skip, todo
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.sites import Site, library_folders, site
from xpubuild.doctor.look.toolkits import Sourced, sourced
from xpubuild.machine.oneapi_bundles import COMPILER, compiler_version
from xpubuild.machine.readers import entries
from xpubuild.machine.versions import line_of

#: Conda and pip packages that contain libraries of oneAPI or of the driver, as spelled by pip: those that
#: Aurora's build scripts remove from an environment before a build, and those that the XPU wheels require.
SHADOWING = frozenset({
    "dpcpp-cpp-rt", "dpcpp-linux-64", "dpcpp-llvm-spirv", "impi-devel", "impi-rt", "intel-cmplr-lib-rt",
    "intel-cmplr-lib-ur", "intel-fortran-rt", "intel-gpu-ocl-icd-system", "intel-opencl-rt",
    "intel-openmp", "intel-pti", "intel-sycl-rt", "level-zero", "level-zero-devel", "mkl", "mkl-devel",
    "mkl-dpcpp", "mkl-include", "oneccl", "oneccl-bind-pt", "oneccl-devel", "onednn", "onednn-devel",
    "onemkl-sycl-blas", "onemkl-sycl-dft", "onemkl-sycl-lapack", "onemkl-sycl-rng",
    "onemkl-sycl-sparse", "tbb", "tbb-devel", "tcmlib", "umf",
})  # fmt: skip
_RUNTIME = "intel-sycl-rt"
_END, _SHOWN = 1 << 18, 3


@check("shadow.libraries", live=True)
def shadow_libraries(look: Look) -> Outcome:
    """LD_LIBRARY_PATH and LD_PRELOAD hide no library.

    The loader uses the first file with a given name. This check lists the libraries of oneMKL, oneDNN,
    MPI, oneCCL, SYCL, TBB, UMF and Level Zero in the folders of `LD_LIBRARY_PATH` and in `LD_PRELOAD`,
    and compares them with those of the same name that are installed with torch (in its own folder and
    in the environment's `lib`), with the system's Level Zero, and with each other. Two different files
    with the same name are reported: they cause messages such as ``version `LIBUR_LOADER_0.11' not
    found``, `undefined symbol: iJIT_NotifyEvent`, or a crash in `torch.compile`.

    Run wheels that include their own runtime in a shell without oneAPI.
    """
    preloads = map(Path, re.split(r"[:\s]+", look.environ.get("LD_PRELOAD", "")))
    preloaded = [place for place in preloads if libraries.family_of(place.name)]
    folders = look.listed("LD_LIBRARY_PATH")
    if not preloaded and not folders:
        return ok("LD_LIBRARY_PATH and LD_PRELOAD are empty")
    behind = [*library_folders(site(look)), *libraries.system_folders(look)]
    pairs = [*_hiding(look, folders), *((place, libraries.find(place.name, behind)) for place in preloaded)]
    doubles = [
        {"family": str(libraries.family_of(first.name)), "first": str(first), "hidden": str(hidden)}
        for first, hidden in pairs
        if hidden is not None and _differ(first, hidden)
    ]
    if not doubles:
        return ok("no library on LD_LIBRARY_PATH or LD_PRELOAD takes precedence over another build")
    reported = "; ".join(
        f"{item['first']} takes precedence over {item['hidden']} ({item['family']})"
        for item in doubles[:_SHOWN]
    )
    more = f"; and {len(doubles) - _SHOWN} more" if len(doubles) > _SHOWN else ""
    fix = todo(
        "remove these folders from the shell that runs torch; activating a workspace sets what it needs",
        "unset LD_LIBRARY_PATH LD_PRELOAD",
    )
    return finding(reported + more, fix, doubles=doubles)


def _hiding(look: Look, folders: tuple[Path, ...]) -> Iterator[tuple[Path, Path | None]]:
    """Yield libraries in LD_LIBRARY_PATH with those of torch, of the system or of each other behind them."""
    python = site(look)
    behind = [*library_folders(python)]
    first: dict[str, Path] = {}
    for folder in folders:
        for name, place in libraries.members(folder).items():
            if name not in first:
                first[name] = place
            elif not all(_of_oneapi(look, item) for item in (first[name], place)):
                # oneapi.mixed reports two releases of oneAPI.
                yield first[name], place
    system = [folder for folder in libraries.system_folders(look) if folder not in folders]
    for name, place in first.items():
        hidden = libraries.find(name, behind)
        if hidden is None and libraries.family_of(name) == "Level Zero":
            hidden = libraries.find(name, system)
        if not _one_release(look, python, place):
            yield place, hidden


def _differ(one: Path, other: Path) -> bool:
    """Whether two libraries have different contents: by size, by their first and by their last bytes."""
    try:
        return not one.samefile(other) and _ends(one) != _ends(other)
    except OSError:
        return False


def _ends(path: Path) -> tuple[int, bytes, bytes]:
    # Libraries of MKL have hundreds of megabytes; build ids and tables are at the ends.
    size = path.stat().st_size
    with path.open("rb") as stream:
        first = stream.read(_END)
        stream.seek(max(0, size - _END))
        return size, first, stream.read(_END)


def _of_oneapi(look: Look, place: Path) -> Sourced | None:
    """Return the sourced component that a file belongs to, or None."""
    return next((item for item in sourced(look) if real(place).is_relative_to(item.folder)), None)


def _one_release(look: Look, python: Site | None, place: Path) -> bool:
    """Whether a sourced SYCL runtime is of the same release as the packages installed with torch."""
    runtime = python.get(_RUNTIME) if python else None
    if runtime is None or libraries.family_of(place.name) not in ("SYCL", "unified runtime"):
        return False
    item = next(
        (
            item
            for item in sourced(look)
            if item.component in (COMPILER, "") and real(place).is_relative_to(item.folder)
        ),
        None,
    )
    return item is not None and line_of(compiler_version(item.version)) == line_of(runtime.version)


@check("shadow.sycl_soname", profiles=RUN)
def shadow_sycl_soname(look: Look) -> Outcome:
    """Only one SYCL runtime is in use.

    `libsycl.so.7` is oneAPI 2024, `.8` is 2025, `.9` is 2026. The check reads (from the ELF files,
    without loading them) which one the libraries of torch, torchvision, torchaudio, triton, dpctl and
    other SYCL users in the environment need, and which one the sourced oneAPI and the environment's own
    `lib` provide. Two major versions in one process crash as soon as an object is passed between them:
    eager mode works, but `torch.compile` does not, because Triton compiles its launcher with the
    compiler in the shell.
    """
    python = site(look)
    asked = dict(_askers(python)) if python is not None else {}
    folder = python.package("torch") if python is not None else None
    torch = next((major for item, major in asked.items() if folder in item.parents), None)
    needing = {look.shown(place): major for place, major in asked.items()}
    if torch is None:
        if len({*asked.values()}) < 2:  # noqa: PLR2004 - two runtimes
            nobody = "the installed torch needs no SYCL runtime"
            return skip(nobody if folder else "torch is not installed in the selected Python")
        # Packages that would load two runtimes into one process.
        first = {major: place for place, major in reversed(needing.items())}
        reported = commas(f"libsycl.so.{major} by {place}" for major, place in sorted(first.items()))
        summary = (
            "import them in different processes, or install builds that were made with one oneAPI release"
        )
        return finding(
            f"installed packages need more than one SYCL runtime: {reported}", todo(summary), found=needing
        )
    majors = {**needing, **dict(_offers(look))}
    others = sorted((place, major) for place, major in majors.items() if major != torch)
    if not others:
        return ok(f"libsycl.so.{torch} everywhere", torch=torch, found=majors)
    reported = commas(f"libsycl.so.{major} by {place}" for place, major in others[:_SHOWN])
    fix = todo(
        "run torch in a shell without that oneAPI, or with the release that torch was built with; then"
        " empty the compile caches",
        "unset LD_LIBRARY_PATH CMPLR_ROOT",
        "rm -rf ~/.triton/cache /tmp/torchinductor_$USER",
    )
    detail = f"torch needs libsycl.so.{torch}, but also found: {reported}"
    return finding(detail, fix, torch=torch, found=majors)


#: Where Python packages keep what is linked with SYCL, by import package.
_USERS = (
    ("torch", "lib/libtorch_xpu.so"), ("torch", "lib/libc10_xpu.so"), ("torchvision", "_C.so"),
    ("torchaudio", "lib/*.so"), ("dpctl", "libDPCTLSyclInterface.so*"), ("dpnp", "*.so"),
    ("intel_extension_for_pytorch", "lib/*.so"), ("triton", "_C/*.so"), ("xpubuild_ops", "*.so"),
    ("vllm_xpu_kernels", "*.so"), ("oneccl_bindings_for_pytorch", "lib/*.so"), ("sgl_kernel", "*.so"),
)  # fmt: skip
#: Where auditwheel puts the libraries that it copies into a wheel.
_BROUGHT = "*.libs/lib*sycl*.so*"


def _askers(python: Site) -> Iterator[tuple[Path, int]]:
    known = [(folder, pattern) for name, pattern in _USERS if (folder := python.package(name))]
    for folder, pattern in (*known, *((folder, _BROUGHT) for folder in python.folders)):
        for place in sorted(folder.glob(pattern)):
            elf = libraries.elf_of(place)
            for needed in elf.needed if elf else ():
                if (major := libraries.sycl_major(needed)) is not None:
                    yield place, major


def _offers(look: Look) -> Iterator[tuple[str, int]]:
    own = (item for item in sourced(look) if item.component in (COMPILER, ""))
    folders = {item.folder / "lib": item.variable for item in own}
    for folder in look.listed("LD_LIBRARY_PATH"):
        folders.setdefault(folder, "LD_LIBRARY_PATH")
    for folder, variable in folders.items():
        for entry in entries(folder):
            if (major := libraries.sycl_major(entry.name)) is not None:
                yield f"{look.shown(folder)} ({variable})", major


@check("shadow.conda", severity="warn", profiles=BUILD)
def shadow_conda(look: Look) -> Outcome:
    """No conda or pip package conflicts with oneAPI.

    Packages such as `mkl`, `tbb`, `umf`, `tcmlib`, `intel-pti`, `oneccl`, `intel-sycl-rt` and conda's
    `level-zero` install their own versions of libraries and headers into an environment. A build in
    such an environment links those instead of oneAPI's; `intel-sycl-rt` together with icpx even causes
    `redefinition` errors. `xpubuild install` builds in a separate environment without them, so this is
    a warning: it affects manual builds, and extensions that are compiled against an installed torch.
    """
    conda = look.environ.get("CONDA_PREFIX", "")
    active = sorted(_conda_packages(look.path(conda))) if conda.startswith("/") else []
    if active:
        summary = "build outside this conda environment, or in one without these packages"
        fix = todo(summary, "conda deactivate")
        return finding(f"the active conda environment has {commas(active)}", fix, conda=active)
    python = site(look)
    runtime = python.get(_RUNTIME) if python else None
    clashing = [
        f"{_RUNTIME} {runtime.version} is installed, but the sourced compiler is {item.version}"
        for item in sourced(look)
        if runtime and item.variable == "CMPLR_ROOT"
        if line_of(compiler_version(item.version)) != line_of(runtime.version)
    ]
    if clashing:
        fix = todo(
            "compile extensions in an environment with the same release, or without the sourced oneAPI"
        )
        return finding("; ".join(clashing), fix, pip=clashing)
    return ok("no package in the active environment conflicts with oneAPI")


def _conda_packages(prefix: Path) -> Iterator[str]:
    for entry in entries(prefix / "conda-meta"):
        name, _, _ = entry.stem.rpartition("-")[0].rpartition("-")
        if entry.suffix == ".json" and name.lower().replace("_", "-") in SHADOWING:
            yield entry.stem
