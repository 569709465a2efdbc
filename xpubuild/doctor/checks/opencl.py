"""OpenCL and SYCL runtimes: whether they would see the GPU."""

from __future__ import annotations

from xpubuild.doctor.fixes import install_need
from xpubuild.doctor.kit import RUN, Fix, Look, Outcome, check, finding, ok, skip
from xpubuild.doctor.probes.level_zero import enumeration
from xpubuild.doctor.probes.opencl import VENDORS, library_exists, registered
from xpubuild.doctor.probes.selector import SELECTOR, SelectorError, visible
from xpubuild.doctor.probes.sycl import sycl_devices


@check("opencl.icd", severity="warn", profiles=RUN, needs=("gpu.supported",))
def opencl_icd(look: Look) -> Outcome:
    """Intel's OpenCL driver for the GPU is registered.

    Searches for Intel's GPU library (`libigdrcl.so`) in `/etc/OpenCL/vendors/*.icd` and checks that the
    file exists. PyTorch uses Level Zero and does not need it; `sycl-ls`, some oneDNN and oneMKL code
    paths and most diagnostic tools do. With the first LTS driver the package also includes `ocloc`,
    which a build needs.
    """
    named = registered(look)
    install = Fix("install the OpenCL driver", install_need(look, "opencl"))
    if not named:
        return finding(f"no file in {VENDORS} lists Intel's GPU library", install)
    lost = {file: library for file, library in named.items() if not library_exists(look, library)}
    if lost:
        file, library = next(iter(lost.items()))
        return finding(f"{file} lists {library}, which does not exist", install, registered=named)
    return ok(", ".join(named.values()), registered=named)


@check(
    "sycl.see",
    profiles=RUN,
    needs=("level_zero.enumerate", "gpu.hidden"),
    live=True,
    families=(
        "A-conda-or-mixed-libstdcxx",
        "B-two-sycl-runtimes-or-stale-jit-cache",
        "E-level-zero-driver-or-loader-version",
    ),
    deadline_s=20,
)
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
    trace = Fix(
        "check which libraries it loads; deactivate conda and other oneAPI environments and try again",
        ("SYCL_UR_TRACE=1 sycl-ls --verbose", "echo $LD_LIBRARY_PATH"),
    )
    evidence = {"program": found.program, "devices": list(found.lines)}
    if found.ending.how != "ok":
        words = found.ending.words.splitlines()[-1:] or [""]
        return finding(f"{found.ending.told(found.program)} {words[0]}".strip(), trace, **evidence)
    devices = enumeration(look).gpus
    try:
        wanted = visible(look.environ.get(SELECTOR, ""), [len(item.get("tiles", ())) for item in devices])
    except SelectorError:
        wanted = len(devices)
    listed = found.count("level_zero")
    if listed < wanted:
        opencl = found.count("opencl")
        beside = f"; it lists {opencl} under OpenCL, which PyTorch does not use" if opencl else ""
        return finding(f"sycl-ls lists {listed} of {wanted} Level Zero GPUs{beside}", trace, **evidence)
    return ok(f"{listed} GPUs under Level Zero", **evidence)
