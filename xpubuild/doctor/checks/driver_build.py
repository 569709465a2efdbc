"""What of the driver a build or torch.compile needs: the offline compiler, and headers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from xpubuild.distribution import Need
from xpubuild.doctor.fixes import install_need, need_note
from xpubuild.doctor.kit import BUILD, RUN, Fix, Look, Outcome, check, finding, ok, skip
from xpubuild.doctor.probes.machine import intel_gpus, wants_driver
from xpubuild.engine.environment import base_environment
from xpubuild.machine.ocloc import OclocAnswer, driver_folders, find_ocloc, try_ocloc
from xpubuild.machine.pci_names import intel_gpu
from xpubuild.machine.readers import exists

if TYPE_CHECKING:
    from xpubuild.recipe.conditions import Case
    from xpubuild.recipe.model import Recipe

_LIBRARIES = "LD_LIBRARY_PATH"
_IMAGE_PATH = ("/usr/local/bin", "/usr/bin", "/bin")
_INCLUDE = ("/usr/include", "/usr/local/include")
_ROOTS = ("ZE_PATH", "CONDA_PREFIX", "VIRTUAL_ENV", "CMPLR_ROOT")
_SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_EXTRA_LIBRARIES = "XPUBUILD_EXTRA_LIBRARY_PATH"
_LEVEL_ZERO, _OPENCL = "level_zero/ze_api.h", "CL/cl.h"
_BRINGS: dict[str, Need] = {_LEVEL_ZERO: "level-zero-headers", _OPENCL: "opencl-headers"}
_HEADERS = tuple(_BRINGS)


@check(
    "driver.ocloc", severity="warn", profiles=BUILD, families=("P-missing-build-component",), deadline_s=20
)
def driver_ocloc(look: Look) -> Outcome:
    """ocloc, the GPU driver's offline compiler, compiles for the build's targets.

    Searches for `ocloc` on PATH and compiles a small kernel with it, for the AOT targets that the recipe
    asks for, or for those of this GPU (`pvc` where there is none). Ahead-of-time compilation of
    kernels (`TORCH_XPU_ARCH_LIST`, `--arch`) calls it through llvm-foreach. Without it, linking fails
    after hours with `llvm-foreach: No such file or directory`. A machine that builds needs it, with or
    without a GPU. It is a failure with a recipe that compiles for a GPU, and a warning otherwise;
    recipes of 2.8 and 2.9 can be built with `--arch none`.

    `ocloc ids NAME` proves nothing. From 2.10 on, with GCC 13 or newer, flash attention is compiled for
    `pvc,bmg` whatever `--arch` says, and the ocloc of the LTS 2350 driver does not know `bmg`.

    It runs in the environment of a build, which does not have the `LD_LIBRARY_PATH` of this shell. If a
    module contains ocloc or the driver, pass its folders on with `--extra-path` and
    `--extra-library-path` (`XPUBUILD_EXTRA_PATH`, `XPUBUILD_EXTRA_LIBRARY_PATH`). In the first LTS driver
    ocloc is part of `intel-opencl-icd`, in all later ones of `intel-ocloc`.
    """
    lists = _lists(look)
    if not lists:
        return ok("the recipe does not compile kernels ahead of time")
    if not look.live:
        path = next(
            (f"{folder}/ocloc" for folder in _IMAGE_PATH if exists(look.path(f"{folder}/ocloc"))), None
        )
        if path is None:
            return _missing(look, "no ocloc in this image", _install(look))
        lacking = _lacking_by_driver(look)
        return lacking or ok(path)
    environment = _build_environment(look.environ)
    program = find_ocloc(environment)
    if program is None:
        return _missing(look, "no ocloc on PATH", _install(look))
    for targets, what in lists:
        answer = try_ocloc(program, targets, environment)
        if not answer.ok:
            detail, fix = _trouble(look, program, targets, what, answer)
            return _missing(look, detail, fix)
    told = " and ".join(",".join(targets) for targets, _ in lists)
    return ok(f"{program} compiles for {told}", program=program, targets=told)


def _missing(look: Look, detail: str, fix: Fix) -> Outcome:
    if look.recipe is None:
        return finding(detail, fix)
    name = look.recipe.recipe.name
    return Outcome("fail", f"{detail}; the recipe {name} compiles kernels ahead of time", {}, fix)


def _lacking_by_driver(look: Look) -> Outcome | None:
    """Return what the driver family of an image says against its ocloc, which cannot be run from outside."""
    if look.recipe is None:
        return None
    from xpubuild.recipe.aot_targets import ocloc_reasons  # noqa: PLC0415 - pydantic, and only with a recipe

    reason = next(ocloc_reasons(_case(look, look.recipe.recipe)), None)
    if reason is None:
        return None
    fix = Fix(reason.todo, ("xpubuild recipes matrix --help",))
    return Outcome("fail" if reason.answer == "no" else "warn", reason.found, {}, fix)


def _install(look: Look) -> Fix:
    return Fix(
        "install it, or load the environment module that contains it" + need_note(look, "ocloc"),
        install_need(look, "ocloc"),
    )


def _lists(look: Look) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the lists of AOT targets of a build, each with what is compiled for it."""
    if look.recipe is None:
        known = (intel_gpu(gpu.device_id) for gpu in intel_gpus(look))
        return (((next((item.targets[0] for item in known if item and item.targets), "pvc"),), ""),)
    from xpubuild.recipe.aot_targets import aot_lists  # noqa: PLC0415 - pydantic, and only with a recipe

    recipe = look.recipe.recipe
    if recipe.target != "xpu":
        return ()
    lists = aot_lists(_case(look, recipe))
    return tuple(dict.fromkeys((item.targets, item.what) for item in lists if item.answer == "yes"))


def _case(look: Look, recipe: Recipe) -> Case:
    """Return the recipe on this host, as the compatibility matrix judges it."""
    from xpubuild.recipe.compatible_host import of_host  # noqa: PLC0415
    from xpubuild.recipe.conditions import Case  # noqa: PLC0415 - pydantic, and only with a recipe

    return Case(recipe, of_host(look.host), None, None)


def _build_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """Return what a build gets of this shell, with the folders that the site passes on."""
    environment = base_environment(caller)
    own = caller.get("XPUBUILD_EXTRA_PATH")
    environment["PATH"] = ":".join(filter(None, (own, caller.get("PATH", ""))))
    libraries = caller.get(_EXTRA_LIBRARIES)
    return {**environment, **({_LIBRARIES: libraries} if libraries else {})}


def _trouble(
    look: Look, program: str, targets: tuple[str, ...], what: str, answer: OclocAnswer
) -> tuple[str, Fix]:
    listed = ",".join(targets)
    if answer.unknown:
        names = ", ".join(answer.unknown)
        detail = f"{program} does not know {names}" + (f", which {what} is compiled for" if what else "")
        instead = (
            "use GCC 12 or older (without flash attention on XPU)"
            if what
            else "use other targets with --arch"
        )
        return detail, Fix(f"{instead}, or the ocloc of a newer driver", ("xpubuild recipes matrix --here",))
    extra = look.environ.get(_EXTRA_LIBRARIES, "")
    if extra and try_ocloc(program, targets, {**_build_environment(look.environ), _LIBRARIES: ""}).ok:
        detail = f"{program} runs, but not with {_EXTRA_LIBRARIES}={extra}: {answer.words}"
        fix = Fix("remove the folder that hides a library of ocloc", (f"unset {_EXTRA_LIBRARIES}",))
        return detail, fix
    folders = driver_folders(look.environ.get(_LIBRARIES, ""))
    theirs = {**_build_environment(look.environ), _LIBRARIES: ":".join(folders)}
    if folders and try_ocloc(program, targets, theirs).ok:
        detail = f"{program} runs with the LD_LIBRARY_PATH of this shell only, which builds do not get"
        line = f"export {_EXTRA_LIBRARIES}={shlex.quote(':'.join(folders))}"
        return detail, Fix("pass the folders of the driver's libraries on to builds", (line,))
    return f"{program} does not compile for {listed}: {answer.words}", _install(look)


@check("driver.headers", severity="warn", profiles=RUN, families=("N-run-time-jit-headers",))
def driver_headers(look: Look) -> Outcome:
    """The Level Zero and OpenCL headers for torch.compile are installed.

    torch.compile makes Triton compile a launcher at run time. It includes `level_zero/ze_api.h`, and
    the SYCL headers of newer oneAPI releases include `CL/cl.h`. Both are searched for in the compiler's
    default folders, in CPATH, C_INCLUDE_PATH and CPLUS_INCLUDE_PATH, in ZE_PATH, and in the include
    folders of the active environment and oneAPI compiler.
    """
    if not wants_driver(look):
        return skip("no Intel GPU to compile for")
    folders = _folders(look)
    missing = [name for name in _HEADERS if not any(exists(look.path(f"{at}/{name}")) for at in folders)]
    if not missing:
        return ok(f"found {', '.join(_HEADERS)}")
    return finding(
        f"no {' and no '.join(missing)}: torch.compile will fail at its first kernel",
        Fix("install the headers", install_need(look, *(_BRINGS[header] for header in missing))),
        missing=missing,
        looked=folders,
    )


def _folders(look: Look) -> list[str]:
    environ = look.environ
    found = [
        entry for name in _SEARCHED for entry in environ.get(name, "").split(":") if entry.startswith("/")
    ]
    roots = (environ.get(name, "") for name in _ROOTS)
    found += [f"{root}/include" for root in roots if root.startswith("/")]
    return [*dict.fromkeys((*found, *_INCLUDE))]
