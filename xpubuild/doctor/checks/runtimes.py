"""The runtimes above Level Zero: OpenCL, SYCL, torch; each is asked in a subprocess, because it may crash."""

from __future__ import annotations

import shlex

from xpubuild.doctor.fixes import install_need
from xpubuild.doctor.kit import RUN, Look, Outcome, check, commas, finding, ok, skip, todo, warn
from xpubuild.doctor.probes import runtimes
from xpubuild.doctor.probes.children import Ending
from xpubuild.doctor.probes.level_zero import enumeration, seen_by_sycl

_ASK = "import ctypes, sys; ctypes.CDLL(sys.argv[1]).urLoaderInit(0, None)"


@check("opencl.icd", severity="warn", profiles=RUN, needs="gpu.supported")
def opencl_icd(look: Look) -> Outcome:
    """Intel's OpenCL driver for the GPU is registered.

    Searches for Intel's GPU library (`libigdrcl.so`) in `/etc/OpenCL/vendors/*.icd` and checks that the
    file exists. PyTorch uses Level Zero and does not need it; `sycl-ls`, some oneDNN and oneMKL code
    paths and most diagnostic tools do. With the first LTS driver the package also includes `ocloc`,
    which a build needs.
    """
    named = runtimes.registered(look)
    install = todo("install the OpenCL driver", *install_need(look, "opencl"))
    if not named:
        return finding(f"no file in {runtimes.VENDORS} lists Intel's GPU library", install)
    for file, library in named.items():
        if not runtimes.library_exists(look, library):
            return finding(f"{file} lists {library}, which does not exist", install, registered=named)
    return ok(commas(named.values()), registered=named)


@check("sycl.see", profiles=RUN, needs="level_zero.enumerate gpu.hidden", live=True, deadline_s=20)
def sycl_see(look: Look) -> Outcome:
    """The SYCL runtime lists the GPUs.

    If a oneAPI environment has `sycl-ls` on PATH, runs it in a subprocess with a timeout and compares
    its Level Zero GPUs with those that Level Zero lists in the same environment. If there are fewer,
    the runtime could not load its Level Zero adapter: an older `libstdc++` is found first, the loader
    is too old for the adapter, or libraries of two oneAPI releases are mixed. PyTorch cannot use GPUs
    that are listed only under OpenCL.
    """
    found = runtimes.sycl_devices(look)
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
    `sycl-ls`, which wheels do not contain.
    """
    found = runtimes.unified_runtime(look)
    if found.loader is None or found.ending is None:
        return skip("no SYCL runtime on LD_LIBRARY_PATH or in the selected environment")
    evidence = {
        "loader": str(found.loader), "adapters": list(found.adapters), "failed": dict(found.failed)
    }  # fmt: skip
    line = f"UR_LOG_LOADER='{runtimes.LOG}' {shlex.join(('python3', '-c', _ASK, str(found.loader)))}"
    fix = todo("install what is missing in the same place as the runtime, or use one oneAPI release", line)
    if found.failed:
        return finding(f"not loaded: {runtimes.names(found.failed)}", fix, **evidence)
    if found.ending.how != "ok" or found.ending.value("load_error"):
        why = found.ending.value("load_error") or found.ending.told("the runtime's loader")
        return finding(f"{found.loader}: {why}", fix, **evidence)
    backends = dict.fromkeys(item["adapter"] for item in found.adapters)
    shown = commas(f"{backend}: {found.devices(backend)} devices" for backend in backends)
    return ok(shown or "no adapter has a device here", **evidence)


@check("torch.import", profiles=RUN, live=True, deadline_s=40)
def torch_import(look: Look) -> Outcome:
    """The installed torch can be imported.

    Imports torch in a subprocess of the selected Python, in the caller's environment, and reports how
    that ended: the last line of an exception (`undefined symbol`, a library that is not found), the
    signal of a crash, or a timeout. The usual reason is that libraries of another oneAPI release, of
    conda or of the system are found before torch's own; the checks `shadow.*` search for them.
    """
    torch = runtimes.torch_count(look)
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


def not_imported(torch: runtimes.TorchCount) -> bool:
    """Whether torch is installed but could not be imported."""
    return torch.hollow or torch.import_failed
