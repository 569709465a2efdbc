"""The installed torch: whether it is an XPU build, and whether its companions belong to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from packaging.utils import canonicalize_name

from xpubuild.artifacts.site_packages import InstalledDist
from xpubuild.doctor.checks.shadow import SHADOWING
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, finding, ok, skip, todo
from xpubuild.doctor.look import libraries, sites
from xpubuild.doctor.look.sites import Site, Torch, library_folders, public, required, site, torch_of
from xpubuild.machine.versions import parse

_NO_TORCH = "torch is not installed in the selected Python"
_NO_XPU = "no XPU build of torch is installed"
_FROM = "--index-url https://download.pytorch.org/whl/xpu"
#: The distributions that all contain the package triton; the two with xpu in their name are Intel's.
_TRITON = ("triton", "triton-xpu", "pytorch-triton-xpu", "pytorch-triton", "pytorch-triton-rocm")
_TRITON_XPU = ("triton-xpu", "pytorch-triton-xpu")


def _pip(python: Site) -> str:
    return f"{python.executable} -m pip"


@check("torch.xpu_build", profiles=RUN)
def torch_xpu_build(look: Look) -> Outcome:
    """The installed torch is an XPU build.

    Searches for `lib/libtorch_xpu.so` in the installed torch, and reads `version.py`; torch is not
    imported. Without that library `torch.xpu.is_available()` is False with any driver. Usual reasons: a
    plain `pip install torch` (CUDA or CPU), a dependency of another package that replaced the XPU
    build, an index that provided a CPU build, or a manual build that did not find SYCL. A GPU is not
    needed for this check: a login node shows what its compute nodes will run. With a recipe for the CPU
    it is skipped.
    """
    if look.wanted is not None and look.wanted.target == "cpu":
        return skip(f"the recipe {look.wanted.name} is for the CPU")
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


@check("torch.one_triton", profiles=RUN)
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
    labels = [f"{dist.name} {dist.version}" for dist in found]
    if len(found) > 1:
        detail = f"{' and '.join(labels)} are installed, but both contain the package triton"
        return finding(detail, _one_triton(torch, found), installed=labels)
    if not torch.xpu:
        return skip(f"torch is built for {torch.kind}")
    if found and (problem := _problem(torch, found[0])):
        return finding(problem, _one_triton(torch, found), installed=labels)
    return ok(labels[0] if labels else "triton is not installed; torch.compile needs it", installed=labels)


def _problem(torch: Torch, dist: InstalledDist) -> str:
    name = f"{dist.name} {dist.version}"
    if dist.name not in _TRITON_XPU:
        return f"torch is built for XPU, but the installed triton is {name}, without XPU support"
    wanted = required(torch.dist, dist.name) if torch.dist else None
    if wanted is not None and not wanted.specifier.contains(public(dist.version), prereleases=True):
        return f"torch {torch.version} requires {wanted}, but {dist.version} is installed"
    if not (dist.site_packages / "triton" / "backends" / "intel").is_dir():
        return f"{name} lacks triton/backends/intel: another triton has overwritten it"
    return ""


def _one_triton(torch: Torch, found: list[InstalledDist]) -> Fix:
    asked = [item for name in _TRITON_XPU if torch.dist and (item := required(torch.dist, name))]
    again = str(asked[0]).partition(";")[0].strip() if asked else "triton-xpu"
    commands = [f"{_pip(torch.python)} uninstall -y {' '.join(dist.name for dist in found)}"]
    if torch.xpu:
        commands.append(f"{_pip(torch.python)} install --force-reinstall --no-deps '{again}' {_FROM}")
    return todo("uninstall all of them, then install the one that torch requires", *commands)


@check("torch.runtime_packages", profiles=RUN)
def torch_runtime_packages(look: Look) -> Outcome:
    """The runtime packages that torch requires are installed.

    The XPU wheels use SYCL, oneMKL, oneCCL and the rest of their runtime from pip packages with exact
    versions (`intel-sycl-rt==...`). If they were installed with `--no-deps`, or another package then
    required other versions, torch does not load, or `torch.compile` finds no SYCL headers. A torch that
    was built on this machine requires none of them.
    """
    torch = torch_of(look)
    if torch is None or torch.dist is None or not torch.xpu:
        return skip(_NO_XPU)
    missing = {}
    for item in sites.requirements(torch.dist):
        name = canonicalize_name(item.name)
        dist = torch.python.get(name)
        fine = dist is not None and item.specifier.contains(dist.version, prereleases=True)
        if not fine and (name in SHADOWING or name.startswith(("intel-", "onemkl-"))):
            missing[f"{item.name}{item.specifier}"] = dist.version if dist else "none"
    if not missing:
        return ok("all are installed, or none is required")
    labels = commas(f"{wanted} (installed: {has})" for wanted, has in missing.items())
    again = " ".join(f"'{wanted}'" for wanted in missing)
    fix = todo("install the packages that torch requires", f"{_pip(torch.python)} install {again} {_FROM}")
    return finding(f"torch {torch.version} requires {labels}", fix, missing=missing)


#: Libraries of oneAPI that an overlinked torch cannot be imported without, and of its runtime.
_NEEDED = (
    "libmkl_", "libccl.", "libmpi", "libimf.", "libsvml.", "libirng.", "libintlc.", "libiomp5.", "libpti",
    "libsycl.", "libur_", "libumf.", "libze_loader.", "libOpenCL.",
)  # fmt: skip
_LINKED = (
    "libtorch_xpu.so", "libc10_xpu.so", "libtorch_cpu.so", "libtorch_global_deps.so", "libtorch_python.so",
)  # fmt: skip


@check("torch.libraries", profiles=RUN, needs="shadow.sycl_soname", live=True)
def torch_libraries(look: Look) -> Outcome:
    """All libraries that torch needs are found.

    Reads which libraries of oneMKL, oneCCL, MPI, SYCL and Level Zero torch's libraries need (`NEEDED`),
    and searches for each as the loader would: in their own RPATH, `LD_LIBRARY_PATH` and the system's
    folders. A torch that was built in a shell with the complete `setvars.sh` links the libraries found
    there, and cannot be imported in a shell without it.
    """
    torch = torch_of(look)
    if torch is None or not torch.xpu:
        return skip(_NO_XPU)
    missing = dict(_unfound(look, torch))
    if not missing:
        return ok("all are found")
    fix = todo(
        "activate the workspace, source the components that torch was built with, or install the runtime"
        " packages of the wheel",
        "xpubuild env --help",
        f"{_pip(torch.python)} check",
    )
    labels = commas(f"{name} (needed by {user})" for name, user in missing.items())
    return finding(f"not found: {labels}", fix, missing=missing)


def _unfound(look: Look, torch: Torch) -> Iterator[tuple[str, str]]:
    """Yield each library that is not found, and what needs it."""
    around = [*look.listed("LD_LIBRARY_PATH"), *library_folders(torch.python)]
    around += libraries.system_folders(look)
    for user in _LINKED:
        place = torch.folder / "lib" / user
        elf = libraries.elf_of(place)
        folders: list[Path] = [*libraries.search_folders(place, elf), *around] if elf else []
        for name in elf.needed if elf else ():
            if name.startswith(_NEEDED) and libraries.find(name, folders) is None:
                yield name, user


_IPEX = "intel-extension-for-pytorch"
_COMPANIONS = ("torchvision", "torchaudio", _IPEX)


@check("torch.vision_pairing", profiles=RUN)
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
    if not problems:
        return ok(f"{commas(f'{dist.name} {dist.version}' for dist in found)} with torch {torch.version}")
    return finding("; ".join(problems.values()), _paired(torch, list(problems)), problems=problems)


def _paired(torch: Torch, names: list[str]) -> Fix:
    """Return what removes them; without a pin, pip would take the newest release, with the same trouble."""
    wanted = f"the release that belongs to torch {public(torch.version)}, built for the same device"
    away = f"{_pip(torch.python)} uninstall -y {' '.join(names)}"
    return todo(f"uninstall {' and '.join(names)}, and install {wanted}", away, "xpubuild recipes matrix")


def _mispaired(torch: Torch, dist: InstalledDist) -> str:
    name, installed = f"{dist.name} {dist.version}", f"but torch {torch.version} is installed"
    if dist.name == _IPEX:
        short = dist.version.split(".")[:2]
        same = short == public(torch.version).split(".")[:2]
        return "" if same else f"{name} is for torch {'.'.join(short)}, {installed}"
    wanted, version = required(dist, "torch"), parse(public(torch.version))
    if wanted and version and not wanted.specifier.contains(version, prereleases=True):
        return f"{name} requires {wanted.name}{wanted.specifier}, {installed}"
    cuda = sites.cuda_of(dist.site_packages / dist.name)
    return f"{name} is built for CUDA {cuda}, torch for {torch.kind}" if cuda and cuda != torch.cuda else ""
