"""The Level Zero loader and driver, tested in a subprocess, because they may crash or hang."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from xpubuild.doctor.fixes import as_root, install_need, install_second_lts, lacking_here, need_note
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip, warn
from xpubuild.doctor.probes.level_zero import UNINITIALIZED, Enumeration, enumeration, result_name, unmasked
from xpubuild.doctor.probes.level_zero_child import LOADER
from xpubuild.doctor.probes.loaders import loader_copies, loader_needed_by, old_runtime, older

_FAMILIES = ("E-level-zero-driver-or-loader-version",)
#: The first loader whose zeInitDrivers is whole; adapters of SYCL runtimes from oneAPI 2025.0 on depend on it
#: (github.com/intel/llvm, sycl: the Level Zero adapter crashes with 1.18.5).
COMPLETE_LOADER = "1.19.2"
#: Adapters of oneAPI 2025.0 and later are linked with it: without it the dynamic loader refuses them
#: (github.com/intel/compute-runtime/issues/818).
_LINKED = "zeDeviceGetRootDevice"

#: Makes the loader take the named driver libraries and no others.
_ALTERNATIVE = "ZE_ENABLE_ALT_DRIVERS"


def install_loader(look: Look) -> tuple[str, ...]:
    """Return the commands that install the loader."""
    return install_need(look, "loader")


def install_driver(look: Look) -> tuple[str, ...]:
    """Return the commands that install loader and driver."""
    return install_need(look, "driver")


@check(
    "level_zero.loader",
    profiles=RUN,
    needs=("gpu.supported",),
    families=(*_FAMILIES, "A-conda-or-mixed-libstdcxx"),
    deadline_s=20,
)
def level_zero_loader(look: Look) -> Outcome:
    """The Level Zero loader can be loaded.

    Loads `libze_loader.so.1` in a subprocess with the caller's environment, as a SYCL runtime would,
    and reports its file and version. With `--root` the file is searched for in the library folders.

    The usual reason that an installed loader cannot be loaded is an older `libstdc++` (such as conda's)
    that is found first.
    """
    if not look.live:
        copies = loader_copies(look)
        if copies:
            return ok(f"{copies[0]}", copies=list(copies))
        return finding(f"no {LOADER} in the library folders", Fix("install it", install_loader(look)))
    found = enumeration(look)
    if found.ending.how == "missing":
        return unanswered(found)
    if found.ending.stage == "dlopen" and not found.load_error:
        return finding(
            found.ending.told("loading the Level Zero loader"), Fix("reinstall it", install_loader(look))
        )
    if found.load_error:
        copies = loader_copies(look)
        beside = f"; {copies[0]} exists" if copies else ""
        fix = Fix("install the loader", install_loader(look))
        if "GLIBCXX" in found.load_error:
            fix = Fix(
                "make sure that a newer libstdc++ is found first: deactivate the conda environment,"
                " or update its copy",
                ("conda install -c conda-forge libstdcxx-ng", "unset LD_LIBRARY_PATH"),
            )
        return finding(f"{found.load_error}{beside}", fix, copies=list(copies))
    path = found.library("libze_loader")
    version = found.loader_version
    others = [copy for copy in loader_copies(look) if os.path.realpath(copy) != os.path.realpath(path)]
    beside = f"; it is found before {', '.join(others)}" if others else ""
    return ok(f"{path}, version {version or 'unknown'}{beside}", path=path, version=version, others=others)


@check(
    "level_zero.enumerate",
    profiles=RUN,
    needs=("level_zero.loader", "gpu.render_access", "driver.family"),
    live=True,
    families=(*_FAMILIES, "D-device-node-access", "Z-single"),
    deadline_s=20,
)
def level_zero_enumerate(look: Look) -> Outcome:
    """Level Zero initialises and lists the GPUs.

    A subprocess calls zeInit, zeDriverGet, zeDeviceGet and the property functions, in the caller's
    environment but without ZE_AFFINITY_MASK (another check examines the mask). A crash is reported with
    its signal and the function, a hang ends with a timeout, and an error code is reported by name.

    The loader returns ZE_RESULT_ERROR_UNINITIALIZED (0x78000001) for many reasons: no driver library,
    no render node that can be opened, a GPU that the driver does not support, incompatible loader and
    driver. Access is tested before this check, so the remaining reason is the driver. The calls of
    the driver have eight seconds (`XPUBUILD_DOCTOR_DRIVER_SECONDS` lowers the number), the whole check has
    the timeout below.
    """
    found = unmasked(look)
    evidence = _evidence(found)
    if found.ending.how == "missing":
        return unanswered(found)
    if found.good and found.gpus:
        return _listed(found)
    detail, fix = _trouble(look, found)
    return finding(detail, fix, **evidence)


def _listed(found: Enumeration) -> Outcome:
    names = sorted({str(device["name"]) for device in found.gpus})
    detail = f"{len(found.gpus)} devices: {', '.join(names)}"
    if found.library("libze_intel_npu") or found.library("libze_intel_vpu"):
        return warn(
            f"{detail}; the NPU's driver is loaded too, which makes PyTorch up to 2.5 fail",
            Fix("limit the loader to the GPU's driver", (f"export {_ALTERNATIVE}=libze_intel_gpu.so.1",)),
            **_evidence(found),
        )
    return ok(detail, **_evidence(found))


def unanswered(found: Enumeration) -> Outcome:
    """Return that Level Zero was not tested: an error, so that it is not taken for a pass."""
    return Outcome(
        "error", f"the subprocess could not be started: {found.ending.words}", {"ended": "missing"}
    )


def _evidence(found: Enumeration) -> dict[str, object]:
    return {
        "ended": found.ending.how,
        "stage": found.ending.stage,
        "code": found.code,
        "loader": found.loader_version,
        "libraries": list(found.libraries),
        "drivers": list(found.drivers),
    }


def _trouble(look: Look, found: Enumeration) -> tuple[str, Fix]:
    """Return the problem and its fix."""
    renew = install_driver(look)
    path = found.library("libze_intel_gpu")
    if found.ending.how in ("crash", "hang", "status"):
        told = found.ending.told("the device enumeration")
        words = f"; its last output: {found.ending.words.splitlines()[-1]}" if found.ending.words else ""
        todo = "install loader and driver from one release; if that does not help, read the kernel log"
        return f"{told}{words}", Fix(todo, (*renew, *as_root(look, "dmesg | grep -iE 'i915|xe ' | tail -30")))
    if found.good:
        return "the driver initialises, but lists no GPU", Fix(
            "install compatible releases of the driver and the kernel driver", renew
        )
    code = found.code
    chosen = look.environ.get(_ALTERNATIVE, "")
    if code == UNINITIALIZED and not path and chosen:
        return (
            f"zeInit: {result_name(code)}; {_ALTERNATIVE}={chosen} limits the loader to that driver",
            Fix("unset it, or set it to the GPU's driver", (f"unset {_ALTERNATIVE}",)),
        )
    if code == UNINITIALIZED and not path:
        return (
            f"zeInit: {result_name(code)}; the loader found no usable driver (libze_intel_gpu.so.1)",
            Fix(f"install the GPU's driver{need_note(look, 'driver')}", renew),
        )
    if code is None:
        return "the device enumeration ended without a result", Fix(
            "reinstall the loader and the driver", renew
        )
    return (
        f"{found.ending.stage}: {result_name(code)}" + (f"; the driver is {path}" if path else ""),
        Fix("install compatible releases of the loader, the driver and the kernel driver", renew),
    )


@check(
    "level_zero.versions",
    profiles=RUN,
    needs=("level_zero.loader",),
    live=True,
    families=_FAMILIES,
    deadline_s=20,
)
def level_zero_versions(look: Look) -> Outcome:
    """The Level Zero loader is new enough for the driver and the SYCL runtime.

    Compares the version of the specification that the loader supports with the one that the driver
    reports, and checks that the loader has the functions that newer SYCL runtimes require
    (zeInitDrivers, zeDeviceGetRootDevice). A loader that is older than the driver hides the driver's
    newer functions.

    The Level Zero adapter of oneAPI 2025.0 and later is linked with zeDeviceGetRootDevice: with a loader that
    lacks it (1.8 of Debian 12) the adapter cannot be loaded, and all GPUs
    disappear without a message. That is a failure, unless the recipe, or without one the installed
    torch, uses oneAPI 2024. A loader that has it and is older than 1.19.2 can make the adapter
    crash: a failure with a recipe that needs such a oneAPI, and a warning otherwise.
    """
    found = unmasked(look)
    loader, spec = found.loader_version, found.loader_spec
    apis = [str(driver["api"]) for driver in found.drivers]
    evidence = {"loader": loader, "spec": spec, "drivers": apis, "lacks": found.ending.value("lacks", [])}
    newer = [api for api in apis if spec and older(spec, api)]
    fix = Fix("install a newer loader from the repository of the driver", install_loader(look))
    if newer:
        return finding(
            f"the loader {loader} supports version {spec} of Level Zero, the driver has {newer[0]}",
            fix,
            **evidence,
        )
    lacks = [str(name) for name in evidence["lacks"]]
    if lacks or (loader and older(loader, COMPLETE_LOADER)):
        return _too_old(look, loader, lacks, evidence)
    if not loader:
        return skip("the loader does not state its version", **evidence)
    return ok(f"loader {loader}, driver API {', '.join(apis) or 'unknown'}", **evidence)


def _too_old(look: Look, loader: str, lacks: Sequence[str], evidence: Mapping[str, Any]) -> Outcome:
    what = f"lacks {', '.join(lacks)}" if lacks else f"is older than {COMPLETE_LOADER}"
    detail = f"the loader {loader} {what}, which SYCL runtimes of oneAPI 2025.0 and later need"
    unneeded = old_runtime(look)
    if unneeded:
        return warn(f"{detail}; {unneeded}", recent_loader(look), **evidence)
    if needed := loader_needed_by(look):
        return finding(f"{detail}; {needed}", recent_loader(look), **evidence)
    if _LINKED in lacks:
        what = f"their Level Zero adapter cannot be loaded without {_LINKED}, and no GPU is listed"
        return finding(f"{detail}: {what}", recent_loader(look), **evidence)
    return warn(detail, recent_loader(look), **evidence)


def recent_loader(look: Look) -> Fix:
    """Return what brings a loader that is new enough, where the distribution or Intel has one."""
    if why := lacking_here(look, "recent-loader"):
        return Fix(f"a loader from {COMPLETE_LOADER} on is needed: {why}")
    if commands := install_second_lts(look):
        return Fix(
            "the first LTS driver (2350) brings an older loader: move to the second (2523), loader and driver"
            " together",
            commands,
        )
    return Fix(f"install a loader from {COMPLETE_LOADER} on", install_need(look, "recent-loader"))
