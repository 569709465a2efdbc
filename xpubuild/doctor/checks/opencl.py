"""OpenCL and SYCL runtimes: whether they would see the GPU."""

from __future__ import annotations

from xpubuild.doctor.context import CheckContext
from xpubuild.doctor.fixes import install_need
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.children import CHECK_DEADLINE_S
from xpubuild.doctor.probes.level_zero import enumeration
from xpubuild.doctor.probes.machine import RUN
from xpubuild.doctor.probes.opencl import VENDORS, library_exists, registered
from xpubuild.doctor.probes.selector import SELECTOR, SelectorError, visible
from xpubuild.doctor.probes.sycl import sycl_devices


class OpenclDriver(Check):
    """Intel's OpenCL driver is registered and its library exists."""

    id = "opencl.icd"
    title = "Intel's OpenCL driver for the GPU is registered"
    severity = "warn"
    needs = ("gpu.supported",)
    profiles = RUN
    explanation = """
    Searches for Intel's GPU library (`libigdrcl.so`) in `/etc/OpenCL/vendors/*.icd` and checks that the
    file exists. PyTorch uses Level Zero and does not need it; `sycl-ls`, some oneDNN and oneMKL code
    paths and most diagnostic tools do. With the first LTS driver the package also includes `ocloc`,
    which a build needs.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Look at the vendor files."""
        named = registered(context)
        install = Fix("install the OpenCL driver", install_need(context, "opencl"))
        if not named:
            return self.found(f"no file in {VENDORS} lists Intel's GPU library", install)
        lost = {file: library for file, library in named.items() if not library_exists(context, library)}
        if lost:
            file, library = next(iter(lost.items()))
            return self.found(f"{file} lists {library}, which does not exist", install, registered=named)
        return self.ok(", ".join(named.values()), registered=named)


class SyclSees(Check):
    """The SYCL runtime on PATH lists the GPUs of Level Zero."""

    id = "sycl.see"
    title = "The SYCL runtime lists the GPUs"
    needs = ("level_zero.enumerate", "gpu.hidden")
    profiles = RUN
    live = True
    families = (
        "A-conda-or-mixed-libstdcxx", "B-two-sycl-runtimes-or-stale-jit-cache",
        "E-level-zero-driver-or-loader-version",
    )  # fmt: skip
    deadline_s = CHECK_DEADLINE_S
    explanation = """
    If a oneAPI environment has `sycl-ls` on PATH, runs it in a subprocess with a timeout and compares
    its Level Zero GPUs with those that Level Zero lists in the same environment. If there are fewer,
    the runtime could not load its Level Zero adapter: an older `libstdc++` is found first, the loader
    is too old for the adapter, or libraries of two oneAPI releases are mixed. PyTorch cannot use GPUs
    that are listed only under OpenCL.
    """

    def run(self, context: CheckContext) -> Outcome:
        """Run sycl-ls and compare."""
        found = context.probe(sycl_devices)
        if found.program is None or found.ending is None:
            return self.skip("no sycl-ls on PATH: no oneAPI environment is active")
        trace = Fix(
            "check which libraries it loads; deactivate conda and other oneAPI environments and try again",
            ("SYCL_UR_TRACE=1 sycl-ls --verbose", "echo $LD_LIBRARY_PATH"),
        )
        evidence = {"program": found.program, "devices": list(found.lines)}
        if found.ending.how != "ok":
            words = found.ending.words.splitlines()[-1:] or [""]
            return self.found(f"{found.ending.told(found.program)} {words[0]}".strip(), trace, **evidence)
        devices = context.probe(enumeration).gpus
        try:
            wanted = visible(
                context.environ.get(SELECTOR, ""), [len(item.get("tiles", ())) for item in devices]
            )
        except SelectorError:
            wanted = len(devices)
        listed = found.count("level_zero")
        if listed < wanted:
            opencl = found.count("opencl")
            beside = f"; it lists {opencl} under OpenCL, which PyTorch does not use" if opencl else ""
            return self.found(
                f"sycl-ls lists {listed} of {wanted} Level Zero GPUs{beside}", trace, **evidence
            )
        return self.ok(f"{listed} GPUs under Level Zero", **evidence)
