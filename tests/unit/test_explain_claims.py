"""What a rule may claim: who goes on has not failed, and the same words have several causes."""

from __future__ import annotations

import pytest
from support.explain_logs import explained, first


@pytest.mark.parametrize(
    "line",
    [
        "tests/test_fp64.py::test_double SKIPPED (Required aspect fp64 is not supported on the device)",
        "test_oom.py::test_it PASSED  RuntimeError: UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "tests/a.py::b XFAIL (Triton Error [ZE]: 0x78000011)",
        "cc1plus: note: unrecognized command-line option '-Wno-frob' may have been intended to silence",
        "warning: frob.h: No such file or directory",
        "CMake Warning: Could NOT find NUMA (missing: NUMA_LIBRARY)",
        "-- Could NOT find CUDA (missing: CUDA_TOOLKIT_ROOT_DIR)",
        "WARNING: Small BAR detected for device 0000:03:00.0",
        " 0x0000000000000001 (NEEDED)  Shared library: [libsycl.so.8]",
        "/dkms/a.c:1:1: warning: frob is deprecated\n/lib/modules/6.8.0-1/b.h:1:1: note: declared here",
        "$ sudo apt remove intel-opencl-icd\nThe following packages will be REMOVED:\n  intel-opencl-icd",
        "checking for internal compiler error: Segmentation fault in frob... no",
        "/usr/bin/ld: skipping incompatible /usr/lib32/libfrob.so when searching for -lfrob\n[2/2] Linking",
        (
            "xe 0000:03:00.0: BAR 2 [mem size 0x2000 64bit pref]: can't assign; no space\n"
            "xe 0000:03:00.0: BAR 2 [mem 0x1000-0x2fff 64bit pref]: assigned"
        ),
        "info: unable to look up current user in /etc/passwd",
        "Failed to apply patch for frob, skipping because it is already applied",
        "Requires PyTorch 2.0, and we have tested with CUDA 11.8",
    ],
)
def test_who_goes_on_has_not_failed(line: str) -> None:
    assert explained(line).findings == ()


@pytest.mark.parametrize(
    ("line", "family"),
    [
        ("No solution found when resolving\nthere is no version of torch==2.4.0+cu124", "T-package-resolver"),
        ("Failed to get number of OpenCL platforms: -1001.", "E-level-zero-driver-or-loader-version"),
        ("Where there is no OpenCL driver it errors out", None),
        ("Bus error (core dumped) ./bench", None),
    ],
)
def test_a_rule_claims_no_more_than_its_line_says(line: str, family: str | None) -> None:
    """What is told as likely is of this family."""
    likely = [item for item in explained(line).findings if item.confidence >= 0.5]
    assert {item.family for item in likely} == ({family} if family else set())


@pytest.mark.parametrize(
    ("line", "id_"),
    [
        (
            "frob 1.0 requires torch 2.1.0, but you have torch 2.2.0 which is incompatible.",
            "another-torch-expected",
        ),
        ("ImportError: requires torch 2.0 or newer, found torch 1.13.1", "another-torch-expected"),
        (
            "  File '/home/u/frob/frob/utils.py', line 3\nModuleNotFoundError: No module named 'torch._six'",
            "imported-from-source-tree",
        ),
        (
            "  File './torchaudio/__init__.py', line 5\nModuleNotFoundError: No module named 'torch'",
            "imported-from-source-tree",
        ),
        ("ValueError: frob.Frob size changed, may indicate binary incompatibility. Expected 9", "numpy-abi"),
        ("g++: fatal error: 段错误 signal terminated program cc1plus", "cc1plus-killed-oom"),
        ("curl: (58) could not load PEM client certificate, OpenSSL error", "certificate-not-trusted"),
        ("g++: internal compiler error: in tsubst_copy, at cp/pt.cc:1", "gcc12-ice-extract-insn"),
        (
            "from torch._C import *\nImportError: libopenblas.so.0: cannot open shared object file",
            "torch-library-not-found",
        ),
    ],
)
def test_what_has_the_same_words_is_told_as_something_else(line: str, id_: str) -> None:
    found = explained(line).findings
    assert found
    assert found[0].id != id_


@pytest.mark.parametrize(
    ("versions", "family"),
    [
        ("0.1.2, 0.1.2.post1, 0.1.2.post2", "M-python-build-tools"),
        ("0.1.2, 0.1.2.post1, 2.2.0", "F-wrong-torch-or-triton-package"),
    ],
)
def test_first_releases_alone_mean_another_python(versions: str, family: str) -> None:
    line = f"Could not find a version that satisfies the requirement torch==1.9 (from versions: {versions})"
    assert first(line).family == family


def test_a_header_that_came_or_went_with_a_release_is_no_missing_environment() -> None:
    line = "/a/b.hpp:18:10: fatal error: '{}' file not found"
    assert "2025.0" in first(line.format("syclcompat/math.hpp"), "debian").next_command
    assert "sycl/detail/frob.hpp" in first(line.format("sycl/detail/frob.hpp")).next_command
    assert first(line.format("sycl/queue.hpp")).family == "C-oneapi-not-found-silent-cpu-build"


def test_the_c_library_that_a_package_wants_goes_before_what_follows_from_it() -> None:
    found = first(
        "dpkg: dependency problems prevent configuration of frob:\n"
        " frob depends on frob-core (= 1.2); however:\n  Package frob-core is not configured yet.\n"
        " frob depends on libc6 (>= 2.39); however:\n  Version of libc6:amd64 on system is 2.36.",
        "debian",
    )
    assert found.family == "AC-glibc-too-old"
    assert "frob" in found.title


IGC = "IGC: Internal Compiler Error: Abnormal termination"
FAULT = (
    "Segmentation fault from GPU at 0xff00000003609000, ctx_id: 1 (CCS) type: 0 (NotPresent), level: 1 (PDE)"
)


def test_a_crash_of_the_graphics_compiler_is_none_of_gcc() -> None:
    found = explained(IGC, "debian").findings
    assert [item.family for item in found] == ["X-compiler-crash"]
    assert not any("g++" in item.next_command for item in found)
    assert (
        first(f"{IGC}\nBuild failed for : dg2 with error code: -11\nCommand was: /usr/bin/ocloc").family[0]
        == "P"
    )


def test_what_sycl_ls_puts_in_brackets_is_no_label() -> None:
    lines = "[opencl:gpu:2] Intel(R) OpenCL HD Graphics\n[ext_oneapi_level_zero:gpu:0] Intel(R) Level-Zero"
    assert explained(lines).findings == ()


def test_a_badly_linked_libtorch_is_no_second_mkl() -> None:
    line = "/x/libtorch/lib/libtorch.so: undefined reference to `mkl_blas_sgemm'"
    found = explained(line).findings
    assert found[0].family == "L-onednn-or-mkl-shadowing"
    assert "mkl-mixed-versions-undefined-references" not in [item.id for item in found]


@pytest.mark.parametrize(
    "line", ["llvm-foreach: Segmentation fault (core dumped)", "icpx: Aborted (core dumped)"]
)
def test_a_crash_is_of_the_program_that_the_line_names(line: str) -> None:
    found = explained(line).findings
    assert found[0].family == "X-compiler-crash"
    assert line.split(":", maxsplit=1)[0] in found[0].title


def test_what_is_far_from_the_first_error_is_found_at_the_end() -> None:
    calm = "[1/2] Building CXX object a.cpp.o\n" * 60000
    text = f"{calm}a.cpp:1:1: error: frob\n{calm}E: Unable to locate package frob-dev\n"
    assert "package-unknown-to-manager" in [item.id for item in explained(text).findings]


def test_a_page_fault_of_the_gpu_is_not_wsl() -> None:
    text = f"{FAULT}\n{FAULT}\nAbort was called at 288 line in file:\n./drm_neo.cpp\nAborted (core dumped)"
    found = explained(text).findings
    assert found[0].id == "gpu-page-fault"
    assert not any("wsl" in item.id for item in found)


@pytest.mark.parametrize(
    ("library", "who"),
    [("libmpi.so.40", "Open MPI"), ("libmpi_cxx.so.40", "Open MPI"), ("libmpi.so.12", "Intel MPI")],
)
def test_an_mpi_is_called_by_its_name(library: str, who: str) -> None:
    found = first(
        f"ImportError: {library}: cannot open shared object file: No such file or directory", "debian"
    )
    assert who in found.cause
    assert ("oneapi" in found.next_command) == (who == "Intel MPI")


def test_what_a_server_lacks_is_no_cut_connection() -> None:
    found = explained(
        "remote: fatal: unable to read 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567\n"
        "remote: aborting due to possible repository corruption on the remote side.\n"
        "fatal: protocol error: bad pack header\nfatal: early EOF\nerror: RPC failed; curl 18 transfer closed"
    ).findings
    assert found[0].id == "repository-lacks-objects"
    assert "transfer-cut" not in [item.id for item in found]


def test_an_index_that_was_not_reached_is_the_network() -> None:
    retry = (
        "WARNING: Retrying (Retry(total={})) after connection broken by 'NewConnectionError('x')': /whl/xpu/"
    )
    text = "\n".join(
        [*(retry.format(left) for left in (4, 3, 2, 1, 0)),
         "ERROR: Could not find a version that satisfies the requirement torch (from versions: none)",
         "ERROR: No matching distribution found for torch"]
    )  # fmt: skip
    assert first(text).family == "S-network-proxy-certificate"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("E: Unable to frob", "apt"),
        ("dpkg: error processing package frob (--configure):", "dpkg"),
        ("Error: Transaction test error:", "dnf"),
        ("Problem: nothing provides frob >= 3 needed by x-1.x86_64", "zypper"),
        ("UnavailableInvalidChannel: frob", "conda"),
        ("curl: (99) frob", "curl"),
        ("ApplyLayer exit status 1 stdout:  stderr: frob", "docker"),
    ],
)
def test_package_managers_and_containers_have_a_first_error(line: str, kind: str) -> None:
    answer = explained(f"Reading package lists... Done\n{line}\nmore")
    assert answer.first_error is not None
    assert (answer.first_error.text, answer.first_error.kind) == (line, kind)


def test_a_step_that_somebody_cancelled_was_not_refused() -> None:
    cancelled = "slurmstepd: error: *** STEP 12.0 ON n01 CANCELLED AT 2026-01-02T03:04:05"
    assert all(item.cause.startswith("No rule fits.") for item in explained(f"{cancelled} ***").findings)
    assert first(f"{cancelled} DUE TO TIME LIMIT ***").id == "job-request-refused"


def test_a_link_to_an_explanation_is_not_what_the_server_refused() -> None:
    text = (
        "DEPRECATION: eggs are deprecated. Discussion can be found at https://github.com/frob/pip/issues/1\n"
        "ERROR: HTTP Error 404: Not Found"
    )
    assert "frob/pip/issues" not in first(text).next_command


def test_a_container_that_was_given_the_gpu_is_not_told_to_take_it() -> None:
    lists = "[opencl:cpu:0] Intel(R) OpenCL, Intel(R) Xeon(R) Frob OpenCL 3.0"
    assert first(f"$ apptainer exec frob.sif sycl-ls\n{lists}").family == "D-device-node-access"
    given = explained(f"$ docker run --device /dev/dri frob sycl-ls\n{lists}")
    assert "container-lists-no-gpu" not in {finding.id for finding in given.findings}


def test_a_header_that_make_wants_is_not_one_of_the_compiler_at_run_time() -> None:
    line = "frob.c:19:10: fatal error: ze_api.h: No such file or directory"
    assert first(line).family == "N-run-time-jit-headers"
    assert first(f"{line}\nmake: *** [Makefile:115: frob] Error 1").family != "N-run-time-jit-headers"


def test_headers_of_sycl_that_miss_each_other_were_compiled_without_its_option() -> None:
    line = "/opt/frob/include/sycl/CL/sycl/buffer.hpp:17:10: fatal error: 'sycl/ext/frob.hpp' file not found"
    assert first(f"$ icpx -I/opt/frob/include/sycl a.cpp\n{line}").id == "sycl-headers-without-fsycl"
    assert first(f"$ icpx -fsycl -I/opt/frob/include/sycl a.cpp\n{line}").id != "sycl-headers-without-fsycl"
