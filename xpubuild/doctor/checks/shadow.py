"""Libraries that are found before those of oneAPI, the driver and torch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from xpubuild.doctor.kit import BUILD, RUN, Look, Outcome, check, finding, ok, real, skip, todo
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.sites import Site, library_folders, site
from xpubuild.doctor.look.toolkits import sourced, version_of
from xpubuild.frozen import frozen
from xpubuild.machine.oneapi_bundles import line_of
from xpubuild.machine.oneapi_components import COMPILER
from xpubuild.machine.readers import entries

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
_END = 1 << 18


@frozen
class Double:
    """One library name in two places: the file that is found first, and the other one."""

    family: str
    name: str
    first: Path
    hidden: Path


@check(
    "shadow.libraries",
    live=True,
    families="B-two-sycl-runtimes-or-stale-jit-cache E-level-zero-driver-or-loader-version"
    " L-onednn-or-mkl-shadowing",
)
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
    preloaded = [
        Path(entry)
        for entry in re.split(r"[:\s]+", look.environ.get("LD_PRELOAD", ""))
        if libraries.family_of(Path(entry).name)
    ]
    folders = look.listed("LD_LIBRARY_PATH")
    if not preloaded and not folders:
        return ok("LD_LIBRARY_PATH and LD_PRELOAD are empty")
    doubles = [*_hiding(look, folders), *_preloads(look, preloaded)]
    if not doubles:
        return ok("no library on LD_LIBRARY_PATH or LD_PRELOAD takes precedence over another build")
    told = "; ".join(
        f"{item.first} takes precedence over {item.hidden} ({item.family})" for item in doubles[:3]
    )
    more = f"; and {len(doubles) - 3} more" if len(doubles) > 3 else ""  # noqa: PLR2004 - as many as shown
    fix = todo(
        "remove these folders from the shell that runs torch; activating a workspace sets what it needs",
        "unset LD_LIBRARY_PATH LD_PRELOAD",
    )
    found = [
        {"family": item.family, "first": str(item.first), "hidden": str(item.hidden)} for item in doubles
    ]
    return finding(told + more, fix, doubles=found)


def _hiding(look: Look, folders: tuple[Path, ...]) -> Iterator[Double]:
    """Yield libraries in LD_LIBRARY_PATH that are found before torch's own, the system's, or each other's."""
    python = site(look)
    behind = [*library_folders(python)]
    first: dict[str, Path] = {}
    for folder in folders:
        for name, place in libraries.members(folder).items():
            if name in first:
                # oneapi.mixed reports two releases of oneAPI.
                if not _both_oneapi(look, first[name], place):
                    yield from _double(name, first[name], place)
            else:
                first[name] = place
    system = [folder for folder in libraries.system_folders(look) if folder not in folders]
    for name, place in first.items():
        hidden = libraries.find(name, behind)
        if hidden is None and libraries.family_of(name) == "Level Zero":
            hidden = libraries.find(name, system)
        if hidden is not None and not _one_release(look, python, name, place):
            yield from _double(name, place, hidden)


def _double(name: str, first: Path, hidden: Path) -> Iterator[Double]:
    family = libraries.family_of(name)
    if family is not None and _differ(first, hidden):
        yield Double(family, name, first, hidden)


def _differ(one: Path, other: Path) -> bool:
    """Whether two libraries have different contents: by size, by their first and by their last bytes."""
    try:
        return not one.samefile(other) and _ends(one) != _ends(other)
    except OSError:
        return False


def _ends(path: Path) -> tuple[int, bytes, bytes]:
    # Libraries of MKL have hundreds of megabytes; build ids and tables are at the ends.
    size = path.stat().st_size
    if not path.is_file():
        return size, b"", b""
    with path.open("rb") as stream:
        first = stream.read(_END)
        stream.seek(max(0, size - _END))
        return size, first, stream.read(_END)


def _both_oneapi(look: Look, one: Path, other: Path) -> bool:
    folders = [item.folder for item in sourced(look)]
    return all(any(real(place).is_relative_to(folder) for folder in folders) for place in (one, other))


def _one_release(look: Look, python: Site | None, name: str, place: Path) -> bool:
    """Whether a sourced SYCL runtime is of the same release as the packages installed with torch."""
    runtime = python.get(_RUNTIME) if python else None
    if runtime is None or libraries.family_of(name) not in ("SYCL", "unified runtime"):
        return False
    for item in sourced(look):
        if item.component in (COMPILER, "") and real(place).is_relative_to(item.folder):
            return line_of(version_of(item.version)) == line_of(runtime.version)
    return False


def _preloads(look: Look, preloaded: list[Path]) -> Iterator[Double]:
    python = site(look)
    behind = [*library_folders(python), *libraries.system_folders(look)]
    for place in preloaded:
        hidden = libraries.find(place.name, behind)
        if hidden is not None:
            yield from _double(place.name, place, hidden)


@check(
    "shadow.sycl_soname",
    profiles=RUN,
    families="B-two-sycl-runtimes-or-stale-jit-cache N-run-time-jit-headers",
)
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
    if torch is None:
        several = len(set(asked.values())) > 1
        return _without_torch(look, asked) if several else skip(_nobody(folder))
    offered = dict(_offers(look))
    majors = {**{look.shown(item): major for item, major in asked.items()}, **offered}
    others = {place: major for place, major in majors.items() if major != torch}
    evidence = {"torch": torch, "found": majors}
    if not others:
        return ok(f"libsycl.so.{torch} everywhere", **evidence)
    told = ", ".join(f"libsycl.so.{major} by {place}" for place, major in sorted(others.items())[:3])
    fix = todo(
        "run torch in a shell without that oneAPI, or with the release that torch was built with; then"
        " empty the compile caches",
        "unset LD_LIBRARY_PATH CMPLR_ROOT",
        "rm -rf ~/.triton/cache /tmp/torchinductor_$USER",
    )
    return finding(f"torch needs libsycl.so.{torch}, but also found: {told}", fix, **evidence)


def _without_torch(look: Look, asked: Mapping[Path, int]) -> Outcome:
    """Tell of packages that would bring two runtimes into one process."""
    first = {major: look.shown(place) for place, major in reversed(tuple(asked.items()))}
    told = ", ".join(f"libsycl.so.{major} by {place}" for major, place in sorted(first.items()))
    fix = todo("import them in different processes, or install builds that were made with one oneAPI release")
    found = {look.shown(place): major for place, major in asked.items()}
    return finding(f"installed packages need more than one SYCL runtime: {told}", fix, found=found)


def _nobody(torch: Path | None) -> str:
    if torch is None:
        return "torch is not installed in the selected Python"
    return "the installed torch needs no SYCL runtime"


#: Where Python packages keep what is linked with SYCL, by import package.
_USERS = (
    ("torch", "lib/libtorch_xpu.so"), ("torch", "lib/libc10_xpu.so"), ("torchvision", "_C.so"),
    ("torchaudio", "lib/*.so"), ("dpctl", "libDPCTLSyclInterface.so*"), ("dpnp", "*.so"),
    ("intel_extension_for_pytorch", "lib/*.so"), ("triton", "_C/*.so"), ("xpubuild_ops", "*.so"),
    ("vllm_xpu_kernels", "*.so"), ("oneccl_bindings_for_pytorch", "lib/*.so"), ("sgl_kernel", "*.so"),
)  # fmt: skip


#: Where auditwheel puts the libraries that a wheel brings along.
_BROUGHT = "*.libs/lib*sycl*.so*"


def _askers(python: Site) -> Iterator[tuple[Path, int]]:
    known = [(folder, pattern) for name, pattern in _USERS if (folder := python.package(name))]
    for folder, pattern in (*known, *((folder, _BROUGHT) for folder in python.folders)):
        for place in sorted(folder.glob(pattern)):
            elf = libraries.elf_of(place)
            for needed in elf.needed if elf else ():
                major = libraries.sycl_major(needed)
                if major is not None:
                    yield place, major


def _offers(look: Look) -> Iterator[tuple[str, int]]:
    folders = {
        item.folder / "lib": item.variable for item in sourced(look) if item.component in (COMPILER, "")
    }
    for folder in look.listed("LD_LIBRARY_PATH"):
        folders.setdefault(folder, "LD_LIBRARY_PATH")
    for folder, variable in folders.items():
        for entry in entries(folder):
            major = libraries.sycl_major(entry.name)
            if major is not None:
                yield f"{look.shown(folder)} ({variable})", major


@check(
    "shadow.conda",
    severity="warn",
    profiles=BUILD,
    families="B-two-sycl-runtimes-or-stale-jit-cache L-onednn-or-mkl-shadowing K-overlinked-oneapi-libs",
)
def shadow_conda(look: Look) -> Outcome:
    """No conda or pip package conflicts with oneAPI.

    Packages such as `mkl`, `tbb`, `umf`, `tcmlib`, `intel-pti`, `oneccl`, `intel-sycl-rt` and conda's
    `level-zero` install their own versions of libraries and headers into an environment. A build in
    such an environment links those instead of oneAPI's; `intel-sycl-rt` together with icpx even causes
    `redefinition` errors. `xpubuild install` builds in a separate environment without them, so this is
    a warning: it affects manual builds, and extensions that are compiled against an installed torch.
    """
    conda = look.environ.get("CONDA_PREFIX", "")
    active = sorted(_conda_packages(look, Path(conda))) if conda.startswith("/") else []
    if active:
        fix = todo(
            "build outside this conda environment, or in one without these packages", "conda deactivate"
        )
        return finding(f"the active conda environment has {', '.join(active)}", fix, conda=active)
    clashing = [*_beside_compiler(look)]
    if clashing:
        fix = todo(
            "compile extensions in an environment with the same release, or without the sourced oneAPI"
        )
        return finding("; ".join(clashing), fix, pip=clashing)
    return ok("no package in the active environment conflicts with oneAPI")


def _conda_packages(look: Look, prefix: Path) -> Iterator[str]:
    for entry in entries((look.path(str(prefix)) if not look.live else prefix) / "conda-meta"):
        if entry.suffix == ".json":
            name, _, _ = entry.stem.rpartition("-")[0].rpartition("-")
            if name.lower().replace("_", "-") in SHADOWING:
                yield entry.stem


def _beside_compiler(look: Look) -> Iterator[str]:
    """Yield a sentence for a SYCL runtime of pip whose release is not the sourced compiler's."""
    python = site(look)
    runtime = python.get(_RUNTIME) if python else None
    if runtime is None:
        return
    for item in sourced(look):
        if item.variable == "CMPLR_ROOT" and line_of(version_of(item.version)) != line_of(runtime.version):
            yield f"{_RUNTIME} {runtime.version} is installed, but the sourced compiler is {item.version}"
