"""OpenCL and SYCL runtimes: whether they would see the GPU."""

from __future__ import annotations

from xpubuild.doctor.context import Context
from xpubuild.doctor.fixes import install_command
from xpubuild.doctor.model import Check, Fix, Outcome
from xpubuild.doctor.probes.children import CHECK_DEADLINE_S
from xpubuild.doctor.probes.level_zero import enumeration
from xpubuild.doctor.probes.machine import RUN
from xpubuild.doctor.probes.opencl import VENDORS, library_exists, registered
from xpubuild.doctor.probes.selector import SELECTOR, SelectorError, visible
from xpubuild.doctor.probes.sycl import sycl_devices


class OpenclDriver(Check):
    """Intel's OpenCL driver is registered and its library is there."""

    id = "opencl.icd"
    title = "Intel's OpenCL driver for the GPU is registered"
    severity = "warn"
    needs = ("gpu.supported",)
    profiles = RUN
    explanation = (
        "Looks for Intel's GPU library (`libigdrcl.so`) in `/etc/OpenCL/vendors/*.icd` and whether that"
        " file is there. PyTorch runs on Level Zero and does not need it; `sycl-ls`, some oneDNN and oneMKL"
        " paths and most diagnostic tools do. On the first LTS driver the package also brings `ocloc`,"
        " which a build needs."
    )

    def run(self, context: Context) -> Outcome:
        """Look at the vendor files."""
        named = registered(context)
        install = Fix(
            "install the OpenCL driver",
            install_command(
                context, debian=("intel-opencl-icd",), rhel=("intel-opencl",), suse=("intel-opencl",)
            ),
        )
        if not named:
            return self.found(f"no file in {VENDORS} names Intel's GPU library", install)
        lost = {file: library for file, library in named.items() if not library_exists(context, library)}
        if lost:
            file, library = next(iter(lost.items()))
            return self.found(f"{file} names {library}, which is not there", install, registered=named)
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
    explanation = (
        "Runs `sycl-ls`, where a oneAPI environment has one on PATH, in a child with a deadline, and"
        " compares the GPUs under Level Zero with what Level Zero itself lists in the same environment."
        " Fewer mean that the runtime could not load its Level Zero adapter: an older `libstdc++` found"
        " first, a loader that is too old for it, libraries of two oneAPI releases. GPUs under OpenCL alone"
        " do not help PyTorch."
    )

    def run(self, context: Context) -> Outcome:
        """Run sycl-ls and compare."""
        found = context.probe(sycl_devices)
        if found.program is None or found.ending is None:
            return self.skip("no sycl-ls on PATH: no oneAPI environment is active")
        trace = Fix(
            "look at what it loads; leave conda or other oneAPI environments and try again",
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
