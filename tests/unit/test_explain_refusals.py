"""What batch systems, modules, containers, caches and limits refuse, in the words of their tools."""

from __future__ import annotations

import io

import pytest

from xpubuild.distribution import System
from xpubuild.explain.document import Circumstances, explain_stream
from xpubuild.explain.estimate import LIKELY
from xpubuild.explain.rank import LikelyCause


def first(text: str) -> LikelyCause:
    known = Circumstances(system=System(("debian",)))
    return explain_stream(io.BytesIO((text + "\n").encode()), known).findings[0]


# The names (frob) are in no table; the command has to name what the line is about.
@pytest.mark.parametrize(
    ("text", "family", "command"),
    [
        (
            "Lmod has detected the following error: The following module(s) are unknown: 'frob/1.2'",
            "Z-single",
            "module spider frob/1.2",
        ),
        ("ERROR: Unable to locate a modulefile for 'frob/2024'", "Z-single", "module spider frob/2024"),
        (
            "frob/2(5):ERROR:150: Module 'frob/2' conflicts with the currently loaded module(s) 'frob/1'",
            "Z-single",
            "module purge && module load frob/2",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification",
            "Z-single",
            "--gres=gpu:TYPE",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination",
            "Z-single",
            "sacctmgr",
        ),
        (
            "srun: error: Unable to create step for job 12: More processors requested than permitted",
            "Z-single",
            "--ntasks",
        ),
        (
            "slurmstepd: error: *** JOB 12 ON frob1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
            "Z-single",
            "--time",
        ),
        ("FATAL:   could not open image /a/frob.sif: no such file or directory", "Z-single", "pull"),
        (
            "FATAL:   container creation failed: mount error: while mounting image: squashfuse not found",
            "Z-single",
            "squashfuse",
        ),
        (
            "docker: Error response from daemon: Bind for 0.0.0.0:8000 failed: port is already allocated.",
            "Z-single",
            "ss -ltnp",
        ),
        (
            "Error response from daemon: Unable to find group render: no matching entries in group file",
            "D-device-node-access",
            "stat -c %g",
        ),
        (
            "ccache: error: Failed to create temporary file for /var/frob/tmp/x: Permission denied",
            "Z-single",
            'chown -R "$USER" "$(dirname /var/frob/tmp/x)"',
        ),
        ("ninja: fatal: pipe: Too many open files", "I-memory-or-disk", "ulimit -n"),
        (
            "RuntimeError: Cannot re-initialize XPU in forked subprocess. To use XPU with multiprocessing",
            "Z-single",
            "multiprocessing",
        ),
        ("error: Unresolved Symbol <__strcpy_chk>", "W-upstream-bug", "-U_FORTIFY_SOURCE"),
        (
            "ninja: error: build.ninja:7: multiple rules generate frob.py [-w dupbuild=err]",
            "G-pin-mismatch-or-broken-main",
            "Unix Makefiles",
        ),
        ("AssertionError: SRE module mismatch", "M-python-build-tools", "unset PYTHONHOME"),
        (
            "DEBUG No compatible version found for: pytorch-triton-xpu{python_version < '3.13'} (>=3.1.0)",
            "F-wrong-torch-or-triton-package",
            "tool.uv.sources",
        ),
        (
            ">>> Status code: 416 for https://frob.example/x86_64/repodata/1.xml",
            "T-package-resolver",
            "dnf clean all",
        ),
        (
            "Warning  FailedScheduling  0/3 nodes are available: 3 Insufficient gpu.intel.com/xe",
            "D-device-node-access",
            "gpu-plugin",
        ),
        (
            "terminate called\n  what():  Sub-group size 24 is not supported on the device",
            "R-hardware-limits",
            "sub_group_size",
        ),
        (
            "frob.SyclQueueCreationError: SYCL Device 'opencl:gpu:7' could not be created.",
            "Z-single",
            "sycl-ls",
        ),
        (
            "ImportError: /a/libfrob.so.1: version `CXXABI_1.3.99' not found (required by /b/frob.so)",
            "A-conda-or-mixed-libstdcxx",
            "libstdcxx-ng",
        ),
        (
            "/tmp/torchinductor_frob/ab/cab.cpp:2:10: fatal error: omp.h: No such file or directory",
            "N-run-time-jit-headers",
            "libomp-dev",
        ),
        ("ld.lld: error: undefined symbol: __svml_frobf4", "K-overlinked-oneapi-libs", "-lsvml"),
        (
            "LINK : fatal error LNK1181: cannot open input file 'mkl_frob.lib'",
            "P-missing-build-component",
            "mkl",
        ),
        (
            "AssertionError: Found an invalid operator name: frob",
            "G-pin-mismatch-or-broken-main",
            "third_party/xpu.txt",
        ),
    ],
)
def test_the_command_is_about_what_was_refused(text: str, family: str, command: str) -> None:
    found = first(text)
    assert found.family == family
    assert command in found.next_command


def test_a_pin_that_pip_cannot_check_out_is_no_shallow_clone() -> None:
    line = "error: pathspec 'gitfrob' did not match any file(s) known to git"
    assert first(f"  Running command git checkout -q gitfrob\n  {line}").family[0] == "G"
    assert first(line).family[0] == "H"


def test_torch_and_torchvision_of_two_days_are_pinned_to_one() -> None:
    found = first(
        "ERROR: Cannot install torch==2.7.0.dev1 and torchvision==0.22.0.dev1 because these package versions "
        "have conflicting dependencies.\n    torchvision 0.22.0.dev1 depends on torch==2.7.0.dev2"
    )
    assert found.family[0] == "F"
    assert "torch==2.7.0.dev2 torchvision" in found.next_command


@pytest.mark.parametrize("after", ["", "  Downloading frob-1.0.whl (3 kB)"])
def test_a_certificate_is_the_cause_unless_the_download_came(after: str) -> None:
    retry = (
        "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'SSLError("
        "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self signed"
        " certificate in certificate chain (_ssl.c:1091)'))': /simple/frob/"
    )
    answer = explain_stream(io.BytesIO(f"{retry}\n{retry}\n{after}\n".encode()))
    assert bool(answer.findings) is (not after)


@pytest.mark.parametrize(
    "text",
    [
        "c++: error: /old/frob.o: No such file or directory",  # an object is no header
        "Failed to build program122 bytes long",  # and a kernel is no package
    ],
)
def test_what_only_looks_alike_is_not_claimed(text: str) -> None:
    answer = explain_stream(io.BytesIO(f"{text}\n".encode()))
    # The words may resemble failures of these kinds, which is said and is not likely; no rule claims them.
    for item in answer.findings:
        assert item.id not in {"header-not-found", "build-of-package-failed"} or (
            item.cause.startswith("No rule fits.") and item.confidence < LIKELY
        )
