"""The runtimes above Level Zero: OpenCL, SYCL, torch; each is asked in a subprocess, because it may crash."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from xpubuild.doctor.fixes import install_need
from xpubuild.doctor.kit import RUN, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.look.sites import site
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import enumeration
from xpubuild.doctor.probes.runtimes import (
    LOG,
    VENDORS,
    TorchCount,
    library_exists,
    names,
    registered,
    sycl_devices,
    torch_count,
    unified_runtime,
)
from xpubuild.doctor.probes.selector import seen_by_sycl
from xpubuild.machine.readers import entries, read_text

_VARIABLE = "OCL_ICD_FILENAMES"
_LIBRARY = "libintelocl.so"
_ASK = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).urLoaderInit(0, None)"


@check("opencl.icd", severity="warn", profiles=RUN, needs="gpu.supported")
def opencl_icd(look: Look) -> Outcome:
    """Intel's OpenCL driver for the GPU is registered.

    Searches for Intel's GPU library (`libigdrcl.so`) in `/etc/OpenCL/vendors/*.icd` and checks that the
    file exists. PyTorch uses Level Zero and does not need it; `sycl-ls`, some oneDNN and oneMKL code
    paths and most diagnostic tools do. With the first LTS driver the package also includes `ocloc`,
    which a build needs.
    """
    named = registered(look)
    install = todo("install the OpenCL driver", *install_need(look, "opencl"))
    if not named:
        return finding(f"no file in {VENDORS} lists Intel's GPU library", install)
    for file, library in named.items():
        if not library_exists(look, library):
            return finding(f"{file} lists {library}, which does not exist", install, registered=named)
    return ok(commas(named.values()), registered=named)


@check("opencl.cpu", severity="warn", profiles=RUN)
def opencl_cpu(look: Look) -> Outcome:
    """The OpenCL CPU device of the environment can be found.

    The package `intel-opencl-rt` brings an OpenCL device for the CPU, and a file in `etc/OpenCL/vendors` of
    the environment that names its library. pip leaves the placeholder of a conda prefix in that file
    (`/opt/anaconda1anaconda2anaconda3/lib/libintelocl.so`), and the OpenCL loader searches only
    `/etc/OpenCL/vendors`. SYCL programs then list no CPU device unless `OCL_ICD_FILENAMES` names the
    library. PyTorch for XPU does not need it.
    """
    python = site(look)
    named = dict(_vendors(python.prefixes if python else ()))
    if not named:
        return skip("the selected environment has no OpenCL library")
    told = look.environ.get(_VARIABLE, "").split(":")
    if not any(Path(entry).is_file() for entry in told if entry):
        for file, library in named.items():
            if Path(library).is_file():
                continue
            real = file.parents[3] / "lib" / _LIBRARY
            line = f"export {_VARIABLE}={shlex.quote(str(real))}"
            fix = todo("name the library in the environment", line)
            fix = fix if real.is_file() else todo("install intel-opencl-rt again")
            detail = f"{file} names {library}, which does not exist"
            return finding(detail, fix, registered={str(file): library})
    return ok(commas(told if any(told) else named.values()))


def _vendors(prefixes: tuple[Path, ...]) -> Iterator[tuple[Path, str]]:
    for prefix in prefixes:
        if prefix.name != "usr":
            for file in entries(prefix / "etc" / "OpenCL" / "vendors"):
                if file.suffix == ".icd":
                    yield file, (read_text(file) or "").strip()


@check("sycl.see", profiles=RUN, needs="level_zero.enumerate gpu.hidden", live=True, deadline_s=20)
def sycl_see(look: Look) -> Outcome:
    """The SYCL runtime lists the GPUs.

    If a oneAPI environment has `sycl-ls` on PATH, runs it in a subprocess with a timeout and compares
    its Level Zero GPUs with those that Level Zero lists in the same environment. If there are fewer,
    the runtime could not load its Level Zero adapter: an older `libstdc++` is found first, the loader
    is too old for the adapter, or libraries of two oneAPI releases are mixed. PyTorch cannot use GPUs
    that are listed only under OpenCL.
    """
    found = sycl_devices(look)
    if found.program is None or found.ending is None:
        return skip("no sycl-ls on PATH: no oneAPI environment is active")
    trace = todo(
        "check which libraries it loads; deactivate conda and other oneAPI environments and try again",
        "SYCL_UR_TRACE=1 sycl-ls --verbose",
        "echo $LD_LIBRARY_PATH",
    )
    evidence = {"program": found.program, "devices": list(found.lines)}
    if found.ending.how != "ok":
        words = found.ending.words.splitlines()[-1:] or [""]
        return finding(f"{found.ending.told(found.program)} {words[0]}".strip(), trace, **evidence)
    wanted, listed = seen_by_sycl(look, enumeration(look).gpus), found.count("level_zero")
    if listed < wanted:
        opencl = found.count("opencl")
        beside = f"; it lists {opencl} under OpenCL, which PyTorch does not use" if opencl else ""
        return finding(f"sycl-ls lists {listed} of {wanted} Level Zero GPUs{beside}", trace, **evidence)
    return ok(f"{listed} GPUs under Level Zero", **evidence)


@check("sycl.adapters", profiles=RUN, live=True, deadline_s=20)
def sycl_adapters(look: Look) -> Outcome:
    """The adapters of the SYCL runtime load.

    The SYCL runtime loads an adapter for Level Zero and one for OpenCL. If a library that an adapter needs
    is missing (`libumf.so.1`, which needs `libhwloc.so.15`) or too old, the runtime skips it without a
    message, and the GPU is not listed. This check asks the runtime's loader, `libur_loader.so.0` of
    `LD_LIBRARY_PATH` or of the selected environment, in a subprocess with its log switched on. It needs no
    `sycl-ls`, which wheels do not bring.
    """
    found = unified_runtime(look)
    if found.loader is None or found.ending is None:
        return skip("no SYCL runtime on LD_LIBRARY_PATH or in the selected environment")
    evidence = {
        "loader": str(found.loader), "adapters": list(found.adapters), "failed": dict(found.failed)
    }  # fmt: skip
    line = f"UR_LOG_LOADER='{LOG}' {shlex.join(('python3', '-c', _ASK, str(found.loader)))}"
    fix = todo("install what is missing in the same place as the runtime, or use one oneAPI release", line)
    if found.failed:
        return finding(f"not loaded: {names(found.failed)}", fix, **evidence)
    if found.ending.how != "ok" or found.ending.value("load_error"):
        why = found.ending.value("load_error") or found.ending.told("the runtime's loader")
        return finding(f"{found.loader}: {why}", fix, **evidence)
    backends = dict.fromkeys(item["adapter"] for item in found.adapters)
    told = commas(f"{backend}: {found.devices(backend)} devices" for backend in backends)
    return ok(told or "no adapter has a device here", **evidence)


@check("torch.import", profiles=RUN, live=True, deadline_s=40)
def torch_import(look: Look) -> Outcome:
    """The installed torch can be imported.

    Imports torch in a subprocess of the selected Python, in the caller's environment, and reports how
    that ended: the last line of an exception (`undefined symbol`, a library that is not found), the
    signal of a crash, or a timeout. The usual reason is that libraries of another oneAPI release, of
    conda or of the system are found before torch's own; the checks `shadow.*` search for them.
    """
    torch = torch_count(look)
    if torch.ending is None:
        return skip("no Python is selected or active")
    if torch.ending.how == "missing":
        return Outcome("error", f"{look.python} could not be started: {torch.ending.words}")
    evidence = {"ended": torch.ending.how, "stage": torch.ending.stage, "said": torch.ending.words}
    fix = todo(
        "check which libraries it loads, and deactivate conda and other oneAPI environments",
        f"{shlex.quote(str(look.python))} -X faulthandler -c 'import torch'",
        "xpubuild doctor --only shadow --only oneapi",
    )
    if torch.hollow:
        return warn("the folder of torch has no __init__.py: the installation is incomplete", fix)
    if torch.version is not None:
        return ok(f"torch {torch.version}", **evidence)
    if torch.import_failed:
        return finding(ended(torch.ending, "torch"), fix, **evidence)
    # It is not installed, or the interpreter failed earlier.
    fine = torch.ending.how == "ok"
    return skip("torch is not installed" if fine else ended(torch.ending, "the interpreter"), **evidence)


def ended(ending: Ending, what: str) -> str:
    """Return how a subprocess ended, with the last line of its standard error."""
    last = next((line.strip() for line in reversed(ending.words.splitlines()) if line.strip()), "")
    return ending.told(what) + (f": {last}" if last else "")


def not_imported(torch: TorchCount) -> bool:
    """Whether torch is installed but could not be imported."""
    return torch.hollow or torch.import_failed
