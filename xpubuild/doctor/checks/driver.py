"""The driver: its family, the offline compiler that a build needs, the headers that torch.compile needs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from xpubuild.distribution import Need
from xpubuild.doctor import kit
from xpubuild.doctor.fixes import (
    first_names,
    install_command,
    install_need,
    lts_note,
    need_note,
    remove_command,
)
from xpubuild.doctor.kit import BUILD, RUN, Fix, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.look.compatible import judged, lost_with, situation
from xpubuild.doctor.probes.level_zero import unmasked
from xpubuild.doctor.probes.machine import intel_gpus, wants_driver
from xpubuild.engine.environment import base_environment
from xpubuild.machine.drivers import DRIVER_PACKAGES, LOADER_PACKAGES, DriverFacts, unread_database
from xpubuild.machine.drivers import driver_family as common_family
from xpubuild.machine.gpus import intel_gpu
from xpubuild.machine.ocloc import OclocAnswer, driver_folders, find_ocloc, try_ocloc
from xpubuild.machine.readers import UNKNOWN, exists

_LIBRARY = "libze_intel_gpu.so"
_NAMES = {"lts-2350": "LTS 2350", "lts2-2523": "LTS2 2523", "rolling": "rolling"}
# Packages of Intel's repositories end in the number of a release and the system: -1146~24.04, -803~22.04.
_INTELS = re.compile(r"-\d{3,}~\d\d\.\d\d")
_PPA = re.compile(r"~ppa\d*|~\d\d\.\d\d~ppa")


def _drivers(look: Look) -> list[DriverFacts]:
    return [item for item in look.host.drivers if item.package in (*DRIVER_PACKAGES, _LIBRARY)]


def _told(item: DriverFacts) -> str:
    return f"{item.package} {item.version} ({_NAMES.get(item.family, item.family)})"


def _source(item: DriverFacts) -> str:
    if _PPA.search(item.version):
        return "a PPA"
    if item.source.startswith("dpkg"):
        return "Intel" if _INTELS.search(item.version) else "the distribution"
    return "an RPM repository" if item.source == "rpm" else item.source


@check("driver.family", profiles=RUN, deadline_s=20)
def driver_family(look: Look) -> Outcome:
    """The GPU's Level Zero driver is installed.

    Searches for the driver in the databases of dpkg and rpm, then by the name of its library, and
    finally asks the loader whether it can use one. The family is determined from the build number of
    the compute runtime, because Intel has renamed the packages: LTS 2350, LTS2 2523, or rolling, which
    most distributions package.

    For Data Center GPU Max, Intel tests the LTS families. Without a driver, zeInit returns
    ZE_RESULT_ERROR_UNINITIALIZED and no program finds a GPU.
    """
    if not wants_driver(look):
        return skip("no Intel GPU that needs a driver")
    found = _drivers(look)
    packages = {item.package: item.version for item in found}
    if found:
        family = common_family(tuple(found))
        if family is None:
            families = sorted({_NAMES.get(item.family, item.family) for item in found})
            return ok(f"{commas(map(_told, found))}: {' and '.join(families)}", packages=packages)
        sources = {item.package: _source(item) for item in found}
        shown = commas(f"{_told(item)}, from {sources[item.package]}" for item in found)
        return ok(shown, packages=packages, family=family, sources=sources)
    path = unmasked(look).library("libze_intel_gpu") if look.live else ""
    if path:
        return ok(f"{path}, which is in no package database; its driver family is unknown", path=path)
    unread = None if look.live else unread_database(look.root)
    if unread is not None:
        return skip(f"the rpm database {unread} was not read, because rpm would have to run in the image")
    summary = f"install it{lts_note(look)}{need_note(look, 'driver')}"
    if lts_note(look) and not first_names(look) and (lost := lost_with(look, driver="lts2-2523")):
        summary += f"; with that of LTS2 2523, {lost}"
    return finding(
        "no Level Zero driver for Intel GPUs was found by dpkg or rpm or in the library folders",
        todo(summary, *install_need(look, "driver")),
    )


@check("driver.mixed")
def driver_mixed(look: Look) -> Outcome:
    """All GPU driver packages are from one driver family.

    Compares the families of the Level Zero driver, the OpenCL driver and ocloc. They share the graphics
    compiler and are released together. Packages of two families install two copies of it, and programs
    crash or kernels do not compile. Two Level Zero drivers (old and new package name) always conflict.
    """
    # Their version shows the family: Level Zero and OpenCL driver, offline compiler.
    parts = [item for item in look.host.drivers if item.family not in (UNKNOWN, "kernel")]
    families = sorted({item.family for item in parts})
    if not parts:
        return skip("no driver package with a known family")
    packages = {item.package: item.version for item in parts}
    if len(families) > 1:
        names = sorted(packages)
        fix = todo(
            "use one family: enable only one of Intel's repositories and install all packages from it",
            *install_command(look, debian=names, rhel=names, suse=names),
        )
        return finding(commas(map(_told, parts)), fix, packages=packages, families=families)
    return ok(f"{_NAMES.get(families[0], families[0])}: {commas(packages)}", packages=packages)


@check("driver.loader_source", severity="warn")
def driver_loader_source(look: Look) -> Outcome:
    """The Level Zero loader and driver come from one repository.

    Determines from package versions whether the loader (libze1, level-zero) and the driver come from
    Intel's repository, a PPA or the distribution. A loader of one release may call functions that a
    driver of another does not have: `torch.xpu.get_device_properties` has crashed that way. Upgrade
    both together. Having the loader installed under both its old and its new package name (level-zero,
    libze1) is also reported.
    """
    drivers = [item for item in _drivers(look) if item.package != _LIBRARY]
    loaders = [item for item in look.host.drivers if item.package in LOADER_PACKAGES]
    if len(loaders) > 1:
        first = any(item.package == "intel-level-zero-gpu" for item in drivers)
        stays = "level-zero" if first else "libze1"
        away = sorted(item.package for item in loaders if item.package != stays) or [loaders[0].package]
        shown = commas(f"{item.package} {item.version}" for item in loaders)
        commands = remove_command(look, debian=away, rhel=away, suse=away)
        fix = todo(f"keep the one from the driver's repository, {stays}", *commands)
        return finding(f"the loader is installed under {len(loaders)} names: {shown}", fix, loaders=shown)
    if not drivers or not loaders:
        return skip("the loader or the driver is not in a package database")
    both = (*loaders, *drivers)
    sources = {item.package: _source(item) for item in both}
    if len({*sources.values()}) > 1:
        names = sorted(sources)
        commands = install_command(look, debian=names, rhel=names, suse=names)
        shown = commas(f"{item.package} {item.version} is from {sources[item.package]}" for item in both)
        return finding(
            shown, todo("install both from the repository of the driver", *commands), sources=sources
        )
    return ok(f"{commas(sources)}: from {next(iter(sources.values()))}", sources=sources)


@check("driver.recipe", profiles=RUN, needs="driver.family", recipe=True)
def driver_recipe(look: Look) -> Outcome:
    """The recipe is compatible with this GPU and driver.

    Uses the constraint solver of `xpubuild plan` to check whether the recipe supports the detected GPU
    family and driver family (`needs.gpus`, `needs.drivers` and `refuses` of the recipe, each with its
    source). If this is unknown, it is a warning and not a failure.
    """
    recipe = look.wanted
    if recipe is None or recipe.target != "xpu":
        return skip(f"the recipe {recipe.name} is for the {recipe.target}" if recipe else "needs a recipe")
    reasons = judged(look, "gpu", "driver")
    if not reasons:
        return ok(f"{recipe.name} is compatible with this GPU and driver", reasons=[])
    wrong = [item for item in reasons if item.answer == "no"]
    summary = "; ".join(filter(None, (item.todo for item in wrong or reasons))) or "use another release"
    answer = finding if wrong else warn
    shown = "; ".join(item.text for item in wrong or reasons)
    evidence = [f"{item.text} ({item.source})" for item in reasons]
    return answer(f"{recipe.name} {shown}", todo(summary, "xpubuild recipes matrix"), reasons=evidence)


_EXTRA_LIBRARIES = "XPUBUILD_EXTRA_LIBRARY_PATH"
_IMAGE_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


@check("driver.ocloc", severity="warn", profiles=BUILD, deadline_s=20)
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
        return _of_image(look)
    environment = _build_environment(look.environ)
    program = find_ocloc(environment)
    if program is None:
        return _missing(look, "no ocloc on PATH", _install(look))
    for targets, what in lists:
        answer = try_ocloc(program, targets, environment)
        if not answer.ok:
            return _missing(look, *_trouble(look, program, targets, what, answer))
    shown = " and ".join(",".join(targets) for targets, _ in lists)
    return ok(f"{program} compiles for {shown}", program=program, targets=shown)


def _of_image(look: Look) -> Outcome:
    """Return the answer about an ocloc that cannot be run: what the driver family knows."""
    places = (f"{folder}/ocloc" for folder in _IMAGE_PATH)
    path = next((place for place in places if exists(look.path(place))), None)
    if path is None:
        return _missing(look, "no ocloc in this image", _install(look))
    for reason in judged(look, "ocloc"):
        fix = todo(reason.todo, "xpubuild recipes matrix --help")
        return (kit.fail if reason.answer == "no" else warn)(reason.found, fix)
    return ok(path)


def _missing(look: Look, detail: str, fix: Fix) -> Outcome:
    if look.wanted is None:
        return finding(detail, fix)
    return kit.fail(f"{detail}; the recipe {look.wanted.name} compiles kernels ahead of time", fix)


def _install(look: Look) -> Fix:
    summary = "install it, or load the environment module that contains it" + need_note(look, "ocloc")
    return todo(summary, *install_need(look, "ocloc"))


def _lists(look: Look) -> tuple[tuple[tuple[str, ...], str], ...]:
    """Return the lists of AOT targets of a build, each with what is compiled for it."""
    recipe = look.wanted
    if recipe is None:
        known = (intel_gpu(gpu.device_id) for gpu in intel_gpus(look))
        return (((next((item.targets[0] for item in known if item and item.targets), "pvc"),), ""),)
    from xpubuild.recipe.aot_targets import aot_lists  # noqa: PLC0415 - pydantic, and only with a recipe
    from xpubuild.recipe.conditions import Case  # noqa: PLC0415

    lists = aot_lists(Case(recipe, situation(look))) if recipe.target == "xpu" else ()
    return tuple(dict.fromkeys((item.targets, item.what) for item in lists if item.answer == "yes"))


def _build_environment(caller: Mapping[str, str]) -> dict[str, str]:
    """Return what a build gets of this shell, with the folders that the site passes on."""
    path = ":".join(filter(None, (caller.get("XPUBUILD_EXTRA_PATH"), caller.get("PATH", ""))))
    extra = {"LD_LIBRARY_PATH": value} if (value := caller.get(_EXTRA_LIBRARIES)) else {}
    return {**base_environment(caller), "PATH": path, **extra}


def _trouble(
    look: Look, program: str, targets: tuple[str, ...], what: str, answer: OclocAnswer
) -> tuple[str, Fix]:
    if answer.unknown:
        detail = f"{program} does not know {commas(answer.unknown)}"
        instead = "use other targets with --arch"
        if what:
            detail += f", which {what} is compiled for"
            instead = "use GCC 12 or older (without flash attention on XPU)"
        return detail, todo(f"{instead}, or the ocloc of a newer driver", "xpubuild recipes matrix --here")
    folders = ":".join(driver_folders(look.environ.get("LD_LIBRARY_PATH", "")))
    environment = {**_build_environment(look.environ), "LD_LIBRARY_PATH": folders}
    if folders and try_ocloc(program, targets, environment).ok:
        detail = f"{program} runs with the LD_LIBRARY_PATH of this shell only, which builds do not get"
        line = f"export {_EXTRA_LIBRARIES}={shlex.quote(folders)}"
        return detail, todo("pass the folders of the driver's libraries on to builds", line)
    return f"{program} does not compile for {','.join(targets)}: {answer.words}", _install(look)


_INCLUDE = ("/usr/include", "/usr/local/include")
_ROOTS = ("ZE_PATH", "CONDA_PREFIX", "VIRTUAL_ENV", "CMPLR_ROOT")
_SEARCHED = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH")
_BRINGS: dict[str, Need] = {"level_zero/ze_api.h": "level-zero-headers", "CL/cl.h": "opencl-headers"}


@check("driver.headers", severity="warn", profiles=RUN)
def driver_headers(look: Look) -> Outcome:
    """The Level Zero and OpenCL headers for torch.compile are installed.

    torch.compile makes Triton compile a launcher at run time. It includes `level_zero/ze_api.h`, and
    the SYCL headers of newer oneAPI releases include `CL/cl.h`. Both are searched for in the compiler's
    default folders, in CPATH, C_INCLUDE_PATH and CPLUS_INCLUDE_PATH, in ZE_PATH, and in the include
    folders of the active environment and oneAPI compiler.
    """
    if not wants_driver(look):
        return skip("no Intel GPU to compile for")
    listed = [entry for name in _SEARCHED for entry in look.environ.get(name, "").split(":")]
    roots = [f"{look.environ.get(name, '')}/include" for name in _ROOTS if look.environ.get(name)]
    own = (entry for entry in (*listed, *roots) if entry.startswith("/"))
    folders = list(dict.fromkeys((*own, *_INCLUDE)))
    missing = [name for name in _BRINGS if not any(exists(look.path(f"{at}/{name}")) for at in folders)]
    if not missing:
        return ok(f"found {commas(_BRINGS)}")
    fix = todo("install the headers", *install_need(look, *(_BRINGS[header] for header in missing)))
    detail = f"no {' and no '.join(missing)}: torch.compile will fail at its first kernel"
    return finding(detail, fix, missing=missing, looked=folders)
