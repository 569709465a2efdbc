"""The Level Zero loader and driver, tested in a subprocess, because they may crash or hang."""

from __future__ import annotations

import os
import re

from xpubuild.doctor.fixes import as_root, install_need, lacking_here, need_note
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.look.compatible import refused_by
from xpubuild.doctor.look.sites import torch_of
from xpubuild.doctor.probes.level_zero import UNINITIALIZED, Enumeration, enumeration, result_name, unmasked
from xpubuild.doctor.probes.level_zero_child import LOADER
from xpubuild.machine.readers import exists, read_text

#: The newest function that adapters are linked with (github.com/intel/compute-runtime/issues/818).
LINKED = "zeDeviceGetRootDevice"
#: The first loader that has it (github.com/oneapi-src/level-zero, CHANGELOG.md: specification 1.7).
FIRST_WITH_LINKED = "1.13"
#: Makes the loader take the named driver libraries and no others.
_ALTERNATIVE = "ZE_ENABLE_ALT_DRIVERS"
_DEBIAN = "/usr/lib/x86_64-linux-gnu"
#: Where loaders look by themselves on the distributions of Max hosts.
FOLDERS = (_DEBIAN, "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64")


@check("level_zero.loader", profiles=RUN, needs="gpu.supported", deadline_s=20)
def level_zero_loader(look: Look) -> Outcome:
    """The Level Zero loader can be loaded.

    Loads `libze_loader.so.1` in a subprocess with the caller's environment, as a SYCL runtime would,
    and reports its file and version. With `--root` the file is searched for in the library folders.

    The usual reason that an installed loader cannot be loaded is an older `libstdc++` (such as conda's)
    that is found first.
    """
    copies = loader_copies(look)
    install = todo("install the loader", *install_need(look, "loader"))
    if not look.live:
        found_none = finding(f"no {LOADER} in the library folders", install)
        return ok(copies[0], copies=list(copies)) if copies else found_none
    found = enumeration(look)
    if found.ending.how == "missing":
        return unanswered(found)
    if found.load_error:
        beside = f"; {copies[0]} exists" if copies else ""
        if "GLIBCXX" in found.load_error:
            install = todo(
                "make sure that a newer libstdc++ is found first: deactivate the conda environment, or update"
                " its copy",
                "conda install -c conda-forge libstdcxx-ng",
                "unset LD_LIBRARY_PATH",
            )
        return finding(f"{found.load_error}{beside}", install, copies=list(copies))
    if found.ending.stage == "dlopen":
        again = todo("reinstall it", *install.commands)
        return finding(found.ending.told("loading the Level Zero loader"), again)
    path, version = found.library("libze_loader"), found.loader_version
    others = [copy for copy in copies if os.path.realpath(copy) != os.path.realpath(path)]
    beside = f"; it is found before {commas(others)}" if others else ""
    detail = f"{path}, version {version or 'unknown'}{beside}"
    return ok(detail, path=path, version=version, others=others)


def loader_copies(look: Look) -> tuple[str, ...]:
    """Return the loaders in LD_LIBRARY_PATH and in the system's folders, in the order they would be found."""
    named = look.environ.get("LD_LIBRARY_PATH", "").split(":")
    folders = dict.fromkeys((*(folder for folder in named if folder.startswith("/")), *FOLDERS))
    return tuple(f"{folder}/{LOADER}" for folder in folders if exists(look.path(f"{folder}/{LOADER}")))


@check(
    "level_zero.enumerate", profiles=RUN, needs="level_zero.loader gpu.render_access driver.family",
    live=True, deadline_s=20,
)  # fmt: skip
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
    if found.ending.how == "missing":
        return unanswered(found)
    evidence = {
        "ended": found.ending.how,
        "stage": found.ending.stage,
        "code": found.code,
        "loader": found.loader_version,
        "libraries": list(found.libraries),
        "drivers": list(found.drivers),
    }
    if not (found.good and found.gpus):
        detail, fix = _trouble(look, found)
        return finding(detail, fix, **evidence)
    names = sorted({str(device["name"]) for device in found.gpus})
    detail = f"{len(found.gpus)} devices: {commas(names)}"
    if found.library("libze_intel_npu") or found.library("libze_intel_vpu"):
        fix = todo("limit the loader to the GPU's driver", f"export {_ALTERNATIVE}=libze_intel_gpu.so.1")
        why = "the NPU's driver is loaded too, which makes PyTorch up to 2.5 fail"
        return warn(f"{detail}; {why}", fix, **evidence)
    return ok(detail, **evidence)


def unanswered(found: Enumeration) -> Outcome:
    """Return that Level Zero was not tested: an error, so that it is not taken for a pass."""
    shown = f"the subprocess could not be started: {found.ending.words}"
    return Outcome("error", shown, {"ended": "missing"})


def _trouble(look: Look, found: Enumeration) -> tuple[str, Fix]:
    """Return the problem and its fix."""
    renew = install_need(look, "driver")
    path, code, chosen = found.library("libze_intel_gpu"), found.code, look.environ.get(_ALTERNATIVE, "")
    if found.ending.how in ("crash", "hang", "status"):
        shown = found.ending.told("the device enumeration")
        words = f"; its last output: {found.ending.words.splitlines()[-1]}" if found.ending.words else ""
        summary = "install loader and driver from one release; if that does not help, read the kernel log"
        line = as_root(look, "dmesg | grep -iE 'i915|xe ' | tail -30")
        return f"{shown}{words}", todo(summary, *renew, *line)
    summary = "install compatible releases of the loader, the driver and the kernel driver"
    if found.good or code is None:
        ended = (
            "the driver initialises, but lists no GPU"
            if found.good
            else "the enumeration ended without a result"
        )
        return ended, todo(summary, *renew)
    if code == UNINITIALIZED and not path:
        why = "the loader found no usable driver (libze_intel_gpu.so.1)"
        fix = todo(f"install the GPU's driver{need_note(look, 'driver')}", *renew)
        if chosen:
            why = f"{_ALTERNATIVE}={chosen} limits the loader to that driver"
            fix = todo("unset it, or set it to the GPU's driver", f"unset {_ALTERNATIVE}")
        return f"zeInit: {result_name(code)}; {why}", fix
    beside = f"; the driver is {path}" if path else ""
    return f"{found.ending.stage}: {result_name(code)}{beside}", todo(summary, *renew)


@check("level_zero.versions", profiles=RUN, needs="level_zero.loader", live=True, deadline_s=20)
def level_zero_versions(look: Look) -> Outcome:
    """The Level Zero loader is new enough for the driver and the SYCL runtime.

    Asks the constraint solver of `xpubuild plan` whether the SYCL runtime of the recipe, or without one of
    each release, can be run with the loader that was loaded (`needs.loader` of the recipe, with its source).
    The Level Zero adapters of oneAPI 2025.0 and 2025.1 are linked with zeDeviceGetRootDevice: with a loader
    that lacks it (1.8 of Debian 12) they cannot be loaded, and all GPUs disappear without a message.

    A loader that knows an older version of the specification than the driver hides the driver's newer
    functions, which is a warning.
    """
    found = unmasked(look)
    loader, spec = found.loader_version, found.loader_spec
    apis = [str(driver["api"]) for driver in found.drivers]
    lacks = [str(name) for name in found.ending.value("lacks", [])]
    evidence = {"loader": loader, "spec": spec, "drivers": apis, "lacks": lacks}
    # One that has all that adapters are linked with is recent enough for each, whatever it calls itself.
    known = loader if loader and older(loader, FIRST_WITH_LINKED) else "1.12"
    against = refused_by(look, "loader", loader=known) if LINKED in lacks else {}
    newer = [api for api in apis if spec and older(spec, api)]
    behind = f"it supports version {spec} of Level Zero, the driver has {newer[0]}" if newer else ""
    if against:
        reason = next(iter(against.values()))
        lacking = f"the loader {loader} lacks {LINKED}: {', '.join(against)} {reason.text}"
        detail = "; ".join(filter(None, (lacking, behind)))
        return finding(detail, recent_loader(look, reason.todo), **evidence)
    if behind:
        fix = todo("install a newer loader from the repository of the driver", *install_need(look, "loader"))
        return warn(f"the loader is {loader}: {behind}", fix, **evidence)
    if not loader:
        return skip("the loader does not state its version", **evidence)
    return ok(f"loader {loader}, driver API {commas(apis) or 'unknown'}", **evidence)


@check("level_zero.pyzes", severity="warn", profiles=RUN, needs="gpu.supported")
def level_zero_pyzes(look: Look) -> Outcome:
    """Torch can ask Level Zero's management library through pyzes.

    From 2.13 on, torch counts devices and reads temperature, clock and power through the package pyzes,
    where it is installed. pyzes 0.1.1 loads the loader from Debian's folder alone
    (`/usr/lib/x86_64-linux-gnu`; github.com/oneapi-src/level-zero, pull request 496), so on SUSE and RHEL its
    import raises an OSError: `torch.xpu.temperature` and its like fail, and `torch.xpu.device_count` asks
    the SYCL runtime instead, after which processes can no longer be forked. A torch that does not catch
    the error, as 2.13.0, 2.14.1 and 2.15.0 do, fails in `torch.xpu.device_count` itself.

    Reads `pyzes.py` of the selected environment; it is ok where torch is older, or pyzes is not installed.
    """
    torch = torch_of(look)
    file = torch.python.module("pyzes") if torch is not None and torch.xpu else None
    text = read_text(file, look.root) if file is not None else None
    place = f"{_DEBIAN}/{LOADER}"
    if torch is None or file is None or text is None or f'"{_DEBIAN}/lib"' not in text:
        return skip("no pyzes that is bound to one folder, or no torch for XPU")
    if exists(look.path(place)):
        return ok(f"{file} loads {place}")
    others = loader_copies(look)
    found = f"the loader is {others[0]}" if others else "there is no loader"
    fix = todo(
        "use a pyzes with that change, or remove it: torch then counts devices without it",
        f"{torch.python.executable} -m pip uninstall -y pyzes",
    )
    return finding(f"{file} loads {place} alone, and {found}", fix, file=str(file), loaders=list(others))


def recent_loader(look: Look, summary: str) -> Fix:
    """Return what installs a loader that is new enough, where the distribution or Intel has one."""
    if why := lacking_here(look, "recent-loader"):
        return todo(why)
    return todo(summary, *install_need(look, "recent-loader"))


def older(one: str, other: str) -> bool:
    """Whether a version of numbers and dots comes before another: 1.8.0 before 1.19.2."""
    first, second = ([int(number) for number in re.findall(r"\d+", item)] for item in (one, other))
    return first < second
