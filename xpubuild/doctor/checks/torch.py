"""The installed torch: whether it is an XPU build, and whether its companions belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import InstalledDist
from xpubuild.doctor.checks.shadow import SHADOWING
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip, todo
from xpubuild.doctor.look import libraries
from xpubuild.doctor.look.companions import companion_version, index_of
from xpubuild.doctor.look.sites import Site, library_folders, public, required, requirements, site
from xpubuild.doctor.look.torches import Torch, cuda_of, torch_of
from xpubuild.recipe.versions import parse

_NO_TORCH = "torch is not installed in the selected Python"
_FROM = "--index-url https://download.pytorch.org/whl/xpu"
#: The distributions that all bring the package triton; the two with xpu in their name are Intel's.
_TRITON = ("triton", "triton-xpu", "pytorch-triton-xpu", "pytorch-triton", "pytorch-triton-rocm")
_TRITON_XPU = ("triton-xpu", "pytorch-triton-xpu")


def _pip(python: Site) -> str:
    return f"{python.executable} -m pip"


@check(
    "torch.xpu_build",
    profiles=RUN,
    families="F-wrong-torch-or-triton-package C-oneapi-not-found-silent-cpu-build",
)
def torch_xpu_build(look: Look) -> Outcome:
    """The installed torch is an XPU build.

    Searches for `lib/libtorch_xpu.so` in the installed torch, and reads `version.py`; torch is not
    imported. Without that library `torch.xpu.is_available()` is False with any driver. Usual reasons: a
    plain `pip install torch` (CUDA or CPU), a dependency of another package that replaced the XPU
    build, an index that provided a CPU build, or a manual build that did not find SYCL. A GPU is not
    needed for this check: a login node shows what its compute nodes will run. With a recipe for the CPU
    it is skipped.
    """
    recipe = look.wanted
    if recipe is not None and recipe.target == "cpu":
        return skip(f"the recipe {recipe.name} is for the CPU")
    torch = torch_of(look)
    if torch is None:
        return skip(_NO_TORCH)
    evidence = {"version": torch.version, "kind": torch.kind, "folder": look.shown(torch.folder)}
    if torch.xpu:
        return ok(f"torch {torch.version} is built for XPU", **evidence)
    fix = todo(
        "install the XPU wheel of the same version, or build one",
        f"{_pip(torch.python)} install --force-reinstall 'torch=={public(torch.version)}' {_FROM}",
        "xpubuild recipes list",
    )
    detail = f"torch {torch.version} in {evidence['folder']} is built for {torch.kind}, not for XPU"
    return finding(detail, fix, **evidence)


@check("torch.one_triton", profiles=RUN, families="F-wrong-torch-or-triton-package")
def torch_one_triton(look: Look) -> Outcome:
    """The triton that torch requires is installed, and no other.

    `triton` (CUDA, AMD), `pytorch-triton-xpu` (up to 2.9) and `triton-xpu` (from 2.10) all install into
    the same folder, `triton/`, and pip does not know that they conflict. Installing two of them leaves
    a mixture; `triton` installed after the XPU one removes the Intel backend. This check reports more
    than one of them, an XPU torch with the wrong one or without the files of its backend, and another
    version than torch requires.
    """
    python, torch = site(look), torch_of(look)
    if python is None or torch is None:
        return skip(_NO_TORCH)
    found = [dist for name in _TRITON if (dist := python.get(name)) is not None]
    told = [f"{dist.name} {dist.version}" for dist in found]
    if len(found) > 1:
        detail = f"{' and '.join(told)} are installed, but both contain the package triton"
        return finding(detail, _one_triton(torch, found), installed=told)
    if not torch.xpu:
        return skip(f"torch is built for {torch.kind}")
    problem = _problem(torch, found)
    if problem:
        return finding(problem, _one_triton(torch, found), installed=told)
    return ok(told[0] if told else "triton is not installed; torch.compile needs it", installed=told)


def _problem(torch: Torch, found: list[InstalledDist]) -> str:
    if not found:
        return ""
    dist = found[0]
    if dist.name not in _TRITON_XPU:
        return (
            f"torch is built for XPU, but the installed triton is {dist.name} {dist.version}, without"
            " XPU support"
        )
    wanted = required(torch.dist, dist.name) if torch.dist else None
    if wanted is not None and not wanted.specifier.contains(public(dist.version), prereleases=True):
        return f"torch {torch.version} requires {wanted}, but {dist.version} is installed"
    if not (dist.site_packages / "triton" / "backends" / "intel").is_dir():
        return f"{dist.name} {dist.version} lacks triton/backends/intel: another triton has overwritten it"
    return ""


def _one_triton(torch: Torch, found: list[InstalledDist]) -> Fix:
    asked = [item for name in _TRITON_XPU if torch.dist and (item := required(torch.dist, name))]
    again = str(asked[0]).partition(";")[0].strip() if asked else "triton-xpu"
    names = " ".join(dist.name for dist in found)
    commands = [f"{_pip(torch.python)} uninstall -y {names}"] if names else []
    if torch.xpu:
        commands.append(f"{_pip(torch.python)} install --force-reinstall --no-deps '{again}' {_FROM}")
    return todo("uninstall all of them, then install the one that torch requires", *tuple(commands))


@check(
    "torch.runtime_packages",
    profiles=RUN,
    families="F-wrong-torch-or-triton-package B-two-sycl-runtimes-or-stale-jit-cache N-run-time-jit-headers",
)
def torch_runtime_packages(look: Look) -> Outcome:
    """The runtime packages that torch requires are installed.

    The XPU wheels use SYCL, oneMKL, oneCCL and the rest of their runtime from pip packages with exact
    versions (`intel-sycl-rt==...`). If they were installed with `--no-deps`, or another package then
    required other versions, torch does not load, or `torch.compile` finds no SYCL headers. A torch that
    was built on this machine requires none of them.
    """
    torch = torch_of(look)
    if torch is None or torch.dist is None or not torch.xpu:
        return skip("no XPU build of torch is installed")
    missing = []
    for item in requirements(torch.dist):
        name = canonicalize_name(item.name)
        if name not in SHADOWING and not name.startswith(("intel-", "onemkl-")):
            continue
        dist = torch.python.get(name)
        if dist is None or not item.specifier.contains(dist.version, prereleases=True):
            missing.append((f"{item.name}{item.specifier}", dist.version if dist else "none"))
    if not missing:
        return ok("all are installed, or none is required")
    told = ", ".join(f"{wanted} (installed: {has})" for wanted, has in missing)
    again = " ".join(f"'{wanted}'" for wanted, _ in missing)
    fix = todo("install the packages that torch requires", f"{_pip(torch.python)} install {again} {_FROM}")
    return finding(f"torch {torch.version} requires {told}", fix, missing=dict(missing))


#: Libraries of oneAPI that an overlinked torch cannot be imported without.
_ONEAPI = (
    "libmkl_",
    "libccl.",
    "libmpi",
    "libimf.",
    "libsvml.",
    "libirng.",
    "libintlc.",
    "libiomp5.",
    "libpti",
)
_RUNTIME = ("libsycl.", "libur_", "libumf.", "libze_loader.", "libOpenCL.")
_LINKED = (
    "libtorch_xpu.so",
    "libc10_xpu.so",
    "libtorch_cpu.so",
    "libtorch_global_deps.so",
    "libtorch_python.so",
)


@check(
    "torch.libraries",
    profiles=RUN,
    needs="shadow.sycl_soname",
    live=True,
    families="K-overlinked-oneapi-libs E-level-zero-driver-or-loader-version"
    " C-oneapi-not-found-silent-cpu-build",
)
def torch_libraries(look: Look) -> Outcome:
    """All libraries that torch needs are found.

    Reads which libraries of oneMKL, oneCCL, MPI, SYCL and Level Zero torch's libraries need (`NEEDED`),
    and searches for each as the loader would: in their own RPATH, `LD_LIBRARY_PATH` and the system's
    folders. A torch that was built in a shell with the complete `setvars.sh` links the libraries found
    there, and cannot be imported in a shell without it.
    """
    torch = torch_of(look)
    if torch is None or not torch.xpu:
        return skip("no XPU build of torch is installed")
    missing = {name: user for user, name in _unfound(look, torch)}
    if not missing:
        return ok("all are found")
    told = ", ".join(f"{name} (needed by {user})" for name, user in missing.items())
    fix = todo(
        "activate the workspace, source the components that torch was built with, or install the runtime"
        " packages of the wheel",
        "xpubuild env --help",
        f"{_pip(torch.python)} check",
    )
    return finding(f"not found: {told}", fix, missing=missing)


def _unfound(look: Look, torch: Torch) -> Iterator[tuple[str, str]]:
    around = (
        *look.listed("LD_LIBRARY_PATH"),
        *library_folders(torch.python),
        *libraries.system_folders(look),
    )
    for user in _LINKED:
        place = torch.folder / "lib" / user
        elf = libraries.elf_of(place)
        for name in elf.needed if elf else ():
            folders: tuple[Path, ...] = (*libraries.search_folders(place, elf), *around) if elf else ()
            if name.startswith((*_ONEAPI, *_RUNTIME)) and libraries.find(name, folders) is None:
                yield user, name


_COMPANIONS = ("torchvision", "torchaudio", "intel-extension-for-pytorch")


@check("torch.vision_pairing", profiles=RUN, families="O-vision-audio-abi Z-single AM-extension-abi")
def torch_vision_pairing(look: Look) -> Outcome:
    """torchvision and torchaudio match the installed torch.

    Compares the torch version that torchvision and torchaudio require (METADATA) with the installed
    one, and the platform that they were built for with that of torch (`version.py`): a CUDA build of
    torchvision with a torch for XPU or the CPU fails with `operator torchvision::nms does not exist`.
    Intel's extension must have the same first two version numbers as torch.
    """
    torch = torch_of(look)
    if torch is None:
        return skip(_NO_TORCH)
    found = [dist for name in _COMPANIONS if (dist := torch.python.get(name)) is not None]
    if not found:
        return skip("neither torchvision nor torchaudio is installed")
    problems = {dist.name: problem for dist in found if (problem := _mispaired(torch, dist))}
    told = ", ".join(f"{dist.name} {dist.version}" for dist in found)
    if not problems:
        return ok(f"{told} with torch {torch.version}")
    return finding("; ".join(problems.values()), _paired(torch, list(problems)), problems=problems)


def _paired(torch: Torch, names: list[str]) -> Fix:
    """Return what brings the releases that were made for this torch; where none is known, it removes them.

    Without a pin, pip takes the newest release, and with it the same trouble.
    """
    pins = {name: version for name in names if (version := companion_version(torch, name))}
    away = [f"{_pip(torch.python)} uninstall -y {' '.join(names)}"]
    if not pins:
        return todo(
            f"uninstall {' and '.join(names)}: no release is known that was built for torch {torch.version}"
            f" ({torch.kind})",
            *tuple(away),
        )
    exact = " ".join(f"'{name}=={version}'" for name, version in pins.items())
    left = [name for name in names if name not in pins]
    rest = f"; nothing is known for {' and '.join(left)}" if left else ""
    return todo(
        f"install the releases that were built for this torch{rest}",
        *away,
        f"{_pip(torch.python)} install --no-deps {exact} --index-url {index_of(torch)}",
    )


def _mispaired(torch: Torch, dist: InstalledDist) -> str:
    name = f"{dist.name} {dist.version}"
    if dist.name == _COMPANIONS[2]:
        if dist.version.split(".")[:2] != public(torch.version).split(".")[:2]:
            return (
                f"{name} is for torch {'.'.join(dist.version.split('.')[:2])}, but torch {torch.version}"
                " is installed"
            )
        return ""
    wanted = required(dist, "torch")
    version = parse(public(torch.version))
    if (
        wanted is not None
        and version is not None
        and not wanted.specifier.contains(version, prereleases=True)
    ):
        return f"{name} requires {wanted.name}{wanted.specifier}, but torch {torch.version} is installed"
    cuda = cuda_of(dist.site_packages / dist.name)
    if cuda and cuda != torch.cuda:
        return f"{name} is built for CUDA {cuda}, torch for {torch.kind}"
    return ""
