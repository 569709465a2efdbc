"""The Level Zero loader and driver: tried in a child, which may crash or hang in our place."""

from __future__ import annotations

import os

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import as_root, install_command
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.children import CHECK_DEADLINE_S, DEADLINE_VARIABLE
from xpubuild.doctor.probes.level_zero import UNINITIALIZED, Enumeration, enumeration, result_name, unmasked
from xpubuild.doctor.probes.level_zero_child import LOADER
from xpubuild.doctor.probes.loaders import loader_copies, loader_needed_by, older
from xpubuild.doctor.probes.machine import RUN

_FAMILIES = ("E-level-zero-driver-or-loader-version",)
#: The first loader whose zeInitDrivers is whole; adapters of SYCL runtimes from oneAPI 2025.0 on depend on it
#: (github.com/intel/llvm, sycl: the Level Zero adapter crashes with 1.18.5).
COMPLETE_LOADER = "1.19.2"


#: Makes the loader take the named driver libraries and no others.
_ALTERNATIVE = "ZE_ENABLE_ALT_DRIVERS"


def install_loader(context: Context) -> tuple[str, ...]:
    """Return the commands that install the loader, by the name that it has on this host."""
    debian = "level-zero" if first_names(context) else "libze1"
    rhel = "oneapi-level-zero" if _fedora(context) else "level-zero"
    return install_command(context, debian=(debian,), rhel=(rhel,), suse=("level-zero",))


def install_driver(context: Context) -> tuple[str, ...]:
    """Return the commands that install loader and driver from the repositories that are set up.

    Names of Intel's repositories for RHEL and SLES: upstream PyTorch, .ci/docker/common/install_xpu.sh; of
    Fedora's own: packages.fedoraproject.org, intel-compute-runtime and oneapi-level-zero.
    """
    intels = ("intel-level-zero-gpu", "level-zero", "intel-opencl")
    debian = ("libze-intel-gpu1", "libze1", "intel-opencl-icd")
    if first_names(context):
        debian = ("intel-level-zero-gpu", "level-zero", "intel-opencl-icd")
    fedoras = ("intel-level-zero", "oneapi-level-zero", "intel-opencl")
    opensuse = context.host.os.id.lower().startswith("opensuse")
    return install_command(
        context,
        debian=debian,
        rhel=fedoras if _fedora(context) else intels,
        suse=("libze_intel_gpu1", "level-zero", "intel-opencl") if opensuse else intels,
    )


def install_headers(context: Context) -> tuple[str, str, str]:
    """Return the package with the headers of Level Zero on Debian, RHEL and SUSE, by the name it has here."""
    debian = "level-zero-dev" if first_names(context) else "libze-dev"
    return debian, "oneapi-level-zero-devel" if _fedora(context) else "level-zero-devel", "level-zero-devel"


def first_names(context: Context) -> bool:
    """Whether this host has packages under the names of the first LTS, which Intel changed later.

    Rolling releases had the driver's first name beside the loader's second.
    """
    names = {item.package for item in context.host.drivers}
    return "libze1" not in names and bool(names & {"intel-level-zero-gpu", "level-zero"})


def _fedora(context: Context) -> bool:
    """Whether this is Fedora, which has packages of its own; RHEL and its rebuilds take Intel's."""
    return context.host.os.id.lower() == "fedora"


class Loader(Check):
    """libze_loader.so.1 can be loaded."""

    id = "level_zero.loader"
    title = "The Level Zero loader can be loaded"
    needs = ("gpu.supported",)
    profiles = RUN
    families = (*_FAMILIES, "A-conda-or-mixed-libstdcxx")
    deadline_s = CHECK_DEADLINE_S
    explanation = (
        "Loads `libze_loader.so.1` in a child process with the caller's environment, as a SYCL runtime"
        " would, and says which file it was and its version. With `--root` the file is looked for in the"
        " library folders.\n\nA loader that is there and cannot be loaded mostly meets an older `libstdc++`"
        " (conda's) on the way."
    )

    def run(self, context: Context) -> Outcome:
        """Load it, or look for it."""
        if not context.live:
            copies = loader_copies(context)
            if copies:
                return self.ok(f"{copies[0]}", copies=list(copies))
            return self.found(
                f"no {LOADER} in the library folders", Fix("install it", install_loader(context))
            )
        found = context.probe(enumeration)
        if found.ending.how == "missing":
            return unanswered(found)
        if found.ending.stage == "dlopen" and not found.load_error:
            return self.found(
                found.ending.told("loading the Level Zero loader"),
                Fix("install it anew", install_loader(context)),
            )
        if found.load_error:
            copies = loader_copies(context)
            beside = f"; {copies[0]} is there" if copies else ""
            fix = Fix("install the loader", install_loader(context))
            if "GLIBCXX" in found.load_error:
                fix = Fix(
                    "let a newer libstdc++ be found first: leave the conda environment, or update its copy",
                    ("conda install -c conda-forge libstdcxx-ng", "unset LD_LIBRARY_PATH"),
                )
            return self.found(f"{found.load_error}{beside}", fix, copies=list(copies))
        path = found.library("libze_loader")
        version = found.loader_version
        others = [copy for copy in loader_copies(context) if os.path.realpath(copy) != os.path.realpath(path)]
        beside = f"; it comes before {', '.join(others)}" if others else ""
        return self.ok(
            f"{path}, version {version or 'unknown'}{beside}", path=path, version=version, others=others
        )


class Enumerate(Check):
    """Level Zero initialises and lists GPUs."""

    id = "level_zero.enumerate"
    title = "Level Zero starts and lists the GPUs"
    needs = ("level_zero.loader", "gpu.render_access", "driver.family")
    profiles = RUN
    live = True
    families = (*_FAMILIES, "D-device-node-access", "Z-single")
    deadline_s = CHECK_DEADLINE_S
    explanation = (
        "A child process calls zeInit, zeDriverGet, zeDeviceGet and the property functions, in the"
        " caller's environment but without ZE_AFFINITY_MASK (what the mask hides is another check's"
        " matter). A crash is told with its signal and the function it was in, a hang ends at a deadline,"
        " an error code has its name.\n\nZE_RESULT_ERROR_UNINITIALIZED (0x78000001) is what the loader"
        " says for every reason: no driver library, no render node that can be opened, a GPU that the"
        " driver does not know, loader and driver that do not fit. Access is tested before this check, so"
        " what remains is the driver. Where a driver is slow, nothing needs more than eight seconds;"
        f" `{DEADLINE_VARIABLE}` shortens that."
    )

    def run(self, context: Context) -> Outcome:
        """Enumerate and judge how it ended."""
        found = context.probe(unmasked)
        evidence = _evidence(found)
        if found.ending.how == "missing":
            return unanswered(found)
        if found.good and found.gpus:
            return self._listed(found)
        detail, fix = _trouble(context, found)
        return self.found(detail, fix, **evidence)

    def _listed(self, found: Enumeration) -> Outcome:
        names = sorted({str(device["name"]) for device in found.gpus})
        detail = f"{len(found.gpus)} devices: {', '.join(names)}"
        if found.library("libze_intel_npu") or found.library("libze_intel_vpu"):
            return self.warn(
                f"{detail}; the NPU's driver is loaded too, which PyTorch up to 2.5 does not survive",
                Fix(
                    "let the loader take the GPU's driver alone",
                    (f"export {_ALTERNATIVE}=libze_intel_gpu.so.1",),
                ),
                **_evidence(found),
            )
        return self.ok(detail, **_evidence(found))


def unanswered(found: Enumeration) -> Outcome:
    """Return that Level Zero was not asked: an error, so that nobody takes it for a host without trouble."""
    return Outcome("error", f"the child could not be started: {found.ending.words}", {"ended": "missing"})


def _evidence(found: Enumeration) -> dict[str, object]:
    return {
        "ended": found.ending.how,
        "stage": found.ending.stage,
        "code": found.code,
        "loader": found.loader_version,
        "libraries": list(found.libraries),
        "drivers": list(found.drivers),
    }


def _trouble(context: Context, found: Enumeration) -> tuple[str, Fix]:
    """Return what went wrong and what to do."""
    renew = install_driver(context)
    path = found.library("libze_intel_gpu")
    if found.ending.how in ("crash", "hang", "status"):
        told = found.ending.told("the enumeration")
        words = f"; it said: {found.ending.words.splitlines()[-1]}" if found.ending.words else ""
        todo = "bring loader and driver to one release; where that does not help, look at the kernel's log"
        return f"{told}{words}", Fix(
            todo, (*renew, *as_root(context, "dmesg | grep -iE 'i915|xe ' | tail -30"))
        )
    if found.good:
        return "the driver starts and lists no GPU", Fix(
            "bring driver and kernel driver to one release", renew
        )
    code = found.code
    chosen = context.environ.get(_ALTERNATIVE, "")
    if code == UNINITIALIZED and not path and chosen:
        return (
            f"zeInit: {result_name(code)}; {_ALTERNATIVE}={chosen} lets the loader take that driver alone",
            Fix("unset it, or name the GPU's driver", (f"unset {_ALTERNATIVE}",)),
        )
    if code == UNINITIALIZED and not path:
        return (
            f"zeInit: {result_name(code)}; the loader could not use any driver (libze_intel_gpu.so.1)",
            Fix("install the GPU's driver", renew),
        )
    if code is None:
        return "the enumeration ended without an answer", Fix("install loader and driver anew", renew)
    return (
        f"{found.ending.stage}: {result_name(code)}" + (f"; the driver is {path}" if path else ""),
        Fix("bring loader, driver and kernel driver to one release", renew),
    )


class Versions(Check):
    """The loader is not older than the driver, nor than what SYCL runtimes call."""

    id = "level_zero.versions"
    title = "The Level Zero loader is new enough for driver and SYCL runtime"
    needs = ("level_zero.loader",)
    profiles = RUN
    live = True
    families = _FAMILIES
    deadline_s = CHECK_DEADLINE_S
    explanation = (
        "Compares the version of the specification that the loader knows with the one that the driver"
        " reports, and looks for functions that newer SYCL runtimes call without asking (zeInitDrivers,"
        " zeDeviceGetRootDevice). A loader that is older than the driver hides its newer functions. With a"
        f" loader before {COMPLETE_LOADER} the Level Zero adapter of oneAPI 2025.0 and later cannot be"
        " loaded or crashes: every GPU vanishes without a message. That fails with a recipe of such a"
        " oneAPI, and is a warning otherwise."
    )

    def run(self, context: Context) -> Outcome:
        """Compare the versions."""
        found = context.probe(unmasked)
        loader, spec = found.loader_version, found.loader_spec
        apis = [str(driver["api"]) for driver in found.drivers]
        evidence = {"loader": loader, "spec": spec, "drivers": apis, "lacks": found.ending.value("lacks", [])}
        newer = [api for api in apis if spec and older(spec, api)]
        fix = Fix(
            "install a newer loader, from the repository that the driver is from", install_loader(context)
        )
        if newer:
            return self.found(
                f"the loader {loader} knows version {spec} of Level Zero, the driver speaks {newer[0]}",
                fix,
                **evidence,
            )
        lacks = [str(name) for name in evidence["lacks"]]
        if lacks or (loader and older(loader, COMPLETE_LOADER)):
            needed = loader_needed_by(context)
            what = f"lacks {', '.join(lacks)}" if lacks else f"is older than {COMPLETE_LOADER}"
            detail = f"the loader {loader} {what}, which SYCL runtimes of oneAPI 2025.0 and later need"
            if needed:
                return self.found(f"{detail}; {needed}", fix, **evidence)
            return self.warn(detail, fix, **evidence)
        if not loader:
            return self.skip("the loader does not state its version", **evidence)
        return self.ok(f"loader {loader}, driver API {', '.join(apis) or 'unknown'}", **evidence)
