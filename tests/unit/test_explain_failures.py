"""Failures from public threads, and runs that went well: what explain says of each."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest
from support.explain_logs import Sample, embed, samples

from xpubuild.cli.app import run
from xpubuild.explain.document import Circumstances, Explanation, explain_stream
from xpubuild.explain.forms import STEPS

SAMPLES = samples()


def explained(*lines: str) -> Explanation:
    return explain_stream(io.BytesIO(("\n".join(lines) + "\n").encode()))


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.id)
def test_what_is_said_of_it(sample: Sample) -> None:
    answer = explained(*sample.lines)
    best = answer.findings[0] if answer.findings else None
    assert (best.id if best else None, best.confidence if best else "") == (sample.rule, sample.sure)
    first = answer.first_error
    assert (first.text if first else "").startswith(sample.first)
    if first:
        assert sample.first
        assert first.step in STEPS.values()
        if sample.sure in {"", "possible"}:
            assert answer.search_terms


def test_it_is_said_of_them_amid_a_long_log_too() -> None:
    for sample in [item for item in SAMPLES if item.sure == "certain"][::6]:
        answer = explain_stream(io.BytesIO(embed(sample.lines, after=0)))
        assert sample.rule in [item.id for item in answer.findings], sample.id


def says(*lines: str) -> dict[str, str]:
    """Return rule -> confidence."""
    return {item.id: item.confidence for item in explained(*lines).findings}


CCL = "2026:07:17-12:29:00:(  532) |CCL_WARN| did not find MPI-launcher specific variables, switch to ATL/OFI"
STEP = "step 1 loss 2.31"
SKIPPED = [f"line {n}" for n in range(20)]


def likely(found: dict[str, str]) -> list[str]:
    return [name for name, sure in found.items() if sure != "possible"]


@pytest.mark.parametrize(
    "lines",
    [
        (CCL, STEP),
        ("[rank3]:[W729 10:00:01.1 socket.cpp:752] The client socket has failed to connect [n] (errno: 97).",
         STEP),
        ("Error: The client socket has timed out after 1000ms while trying to connect to (n1, 29500).", STEP),
        ("ERROR: Could not find a version that satisfies the requirement a==9 (from versions: 1.0)",
         "ERROR: No matching distribution found for a==9", "Successfully installed a-1.0"),
        ("error: RPC failed; curl 56 GnuTLS recv error (-110)", "fatal: early EOF",
         "HEAD is now at ba56102 a"),
        ("<LOADER>[INFO]: failed to load adapter 'libur_adapter_cuda.so.0' with error: no such file",
         "[level_zero:gpu][level_zero:0] Intel(R) oneAPI Unified Runtime over Level-Zero"),
        ("ERROR: pip's dependency resolver does not currently take into account all the packages that are",
         "torchvision 0.1 requires torch==2.7, but you have torch 2.8 which is incompatible.",
         "Successfully installed torch-2.8"),
        ("error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly", "fatal: early EOF",
         "Receiving objects: 100% (9/9), done."),
        ("UserWarning: Aten Op fallback from XPU to CPU happends.", STEP),
        ("WARNING: Small BAR detected for device 0000:03:00.0", "| model | size |",
         "| smollm3 | 1.78 GiB | 1025.75 |"),
        ("|CCL_WARN| host: n1, rank: 0, port issue: { status: failed, details: training timeout }",
         "all ranks done"),
        ("Ignore import error when loading a: No module named 'vllm'", *SKIPPED),
        ("loaded without: No module named 'vllm'", *SKIPPED),
    ],
)  # fmt: skip
def test_what_was_overcome_is_no_cause(lines: Iterable[str]) -> None:
    assert likely(says(*lines)) == []


def test_what_a_program_skips_is_nothing() -> None:
    assert says("Failed to download font: Plex, skipping!", *SKIPPED) == {}


@pytest.mark.parametrize(
    "end", ["BUILD RC=0", "Process completed with exit code 0", "Build succeeded.", STEP, "exit status: 0"]
)
@pytest.mark.parametrize(
    "line",
    [
        "AttributeError: module 'frob' has no attribute '__version__'",
        'Lmod has detected the following error: The following module(s) are unknown: "frob/1"',
        "UserWarning: XPU device count is zero! (Triggered internally)",
        "/bin/sh: 1: frob: not found",
    ],
)
def test_a_log_that_ends_well_has_no_cause_and_no_first_error(line: str, end: str) -> None:
    answer = explained(line, "works", end)
    assert answer.first_error is None
    assert not [item for item in answer.findings if item.confidence != "possible"]


def test_one_that_fails_after_a_good_part_has_both() -> None:
    found = says("part 1 RC=0", "AttributeError: module 'triton.x' has no attribute 'frob'", "exit code 1")
    assert likely(found) == ["python-interface-differs"]


def test_the_specific_message_beats_the_general_one() -> None:
    found = says(
        "ImportError: libsycl.so.8: cannot open shared object file: No such file or directory",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:",
        "Segmentation fault (core dumped)",
    )
    assert list(found) == ["libsycl-not-found"]


OOM = "RuntimeError: XPU out of memory. Tried to allocate"
CARD = "GPU 0 has a total capacity of 12.00 GiB of which"
TOTAL = "GPU 0 has a total capacity of 15.11 GiB. Of the allocated memory"
NONE = "ERROR: Could not find a version that satisfies the requirement"


@pytest.mark.parametrize(
    ("lines", "best"),
    [
        (("xe 0000:03:00.0: [drm] *ERROR* GT0: firmware signature verification failed",
          "xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged."),
         ("kernel-firmware-rejected", "possible")),
        (("xe 0000:03:00.0: Runtime Survivability mode enabled",
          "xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged."),
         ("kernel-card-firmware-damaged", "certain")),
        (("Build program log for 'x':", "Module <0x1>:  Unresolved Symbol <_Z3myf>"),
         ("jit-build-log", "possible")),
        (("Build program log for 'x':", "Module <0x1>:  Unresolved Symbol <_Z16__spirv_DotAcc>"),
         ("jit-build-log", "certain")),
        ((f"{OOM} 2.00 MiB. {CARD} 9.00 GiB is free. 244.00 MiB allowed; Of the allocated memory 1 MiB",),
         ("xpu-own-limit-reached", "certain")),
        ((f"{OOM} 2.00 MiB. {CARD} 9.00 GiB is free.",), ("xpu-refused-with-room", "possible")),
        ((f"{OOM} 2.00 GiB. {CARD} 9.00 MiB is free.",), ("xpu-memory-full", "certain")),
        ((f"{OOM} 2.00 GiB.", f"{CARD} 9.00 MiB is free."), ("xpu-memory-full", "certain")),
        (("fatal error: 'ATen/native/xpu/Ops.h' file not found",), ("header-not-found", "likely")),
        (("{standard input}:9: Error: unknown pseudo-op: `.lv'", "{standard input}: Error: open CFI",
          "c++: fatal error: Killed signal terminated program cc1plus"), ("compiler-killed", "certain")),
        (("{standard input}:9: Error: no such instruction: `vfrob %ymm0'",),
         ("assembler-too-old", "certain")),
        (("error: __spirv_Frob call 2nd argument must be pointer to target extension type",
          "error: in function 'x'", "  called by kernel 'k':", "  undefined reference to `_Z1x'",
          "error: backend compiler failed build."), ("spirv-not-accepted", "possible")),
        (("error: in function 'x'", "  called by kernel 'k':", "  undefined reference to `__devicelib_x'"),
         ("jit-build-log", "certain")),
        (("RuntimeError: No device of requested type available",),
         ("no-device-of-requested-type", "possible")),
        (("a.cpp:3:4: error: no matching function for call to `at::put(int, long)'",
          "a.cpp:3:4: note:   deduced conflicting types for parameter `T' (`int' and `long int')"),
         ("call-types-conflict", "likely")),
        (("a.cpp:3:4: error: no matching function for call to 'at::put'",
          "b.h:1:1: note: template ignored: deduced conflicting types for parameter 'T' ('int' vs. 'long')"),
         ("call-types-conflict", "likely")),
        (("a.cpp:3:4: error: no matching function for call to `at::put(int, long)'",
          "b.h:1:1: note: candidate expects 3 arguments, 2 provided"),
         ("source-and-headers-differ", "possible")),
        (("a.cpp:3:9: error: too few template arguments for class template 'Frob'",
          "/opt/frob/include/frob.h:7:1: note: template is declared here"),
         ("template-of-another-release", "likely")),
        (('  File "/v/site-packages/vllm/a.py", line 3, in <module>', "    from torch.frob import x",
          "ImportError: cannot import name 'x' from 'torch.frob' (/v/site-packages/torch/frob.py)"),
         ("python-interface-differs", "likely")),
        (("TypeError: canonicalize_version() got an unexpected keyword argument 'strip_trailing_zero'",),
         ("python-interface-differs", "likely")),
        (('ImportError: "libmkl_core.so.2": cannot open shared object file: No such file or directory',),
         ("library-not-found", "certain")),
        (("ImportError: _C.so undefined symbol _ZNR5torch3Lib",), ("undefined-symbol", "likely")),
        (("/bin/sh: 1: FROB_TOOL-NOTFOUND: not found",), ("program-not-found", "likely")),
        (("error: Request failed after 3 retries", "  Caused by: Failed to download https://frob.example/x",
          "  Caused by: failed to lookup address information: Name or service not known"),
         ("name-not-resolved", "certain")),
        (("error: Request failed after 3 retries", "  Caused by: error sending request for url (https://x.y/)",
          "  Caused by: tcp connect error"), ("pip-index-unreachable", "possible")),
        (("error: Kernel compiled with required subgroup size 8, which is unsupported on this platform",),
         ("kernel-incompatible-with-devices", "certain")),
        (("RuntimeError: Check the file paths in `mirror_frob()`",), ("cmake-file-missing", "possible")),
        (("CMake Error at CMakeLists.txt:1 (install):", "  install TARGETS given target \"frob\" which does",
          "  not exist."), ("cmake-target-not-found", "possible")),
        (("oneCCL: coll.cpp:1 f: EXCEPTION: |CCL_SYCL| sched algorithms do not support recording",),
         ("ccl-error", "possible")),
        (("AssertionError: expected size 4==4, stride 1==2 at dim=1", "Error in op: torch.ops.frob.default"),
         ("operator-and-meta-kernel-differ", "likely")),
        (("[1]: /lib64/libocloc.so(_ZN16SafetyGuardLinux9sigActionEiP9siginfo_tPv+0x1) [0x1]",
          "llvm-foreach: Aborted (core dumped)"), ("compiler-crashed", "likely")),
        (("[Mon Jun  1 10:00:00 2026] xe 0000:03:00.0: [drm] GT0: Kernel-submitted job timed out",
          "[Mon Jun  1 10:00:00 2026] xe 0000:03:00.0: [drm] GT0: Timedout job: seqno=1 in no process [-1]"),
         ("kernel-own-job-timed-out", "possible")),
        (("RuntimeError: job failed 3 times: ==> job.log <==",
          ":: WARNING: setvars.sh has already been run. Skipping re-execution."),
         ("oneapi-set-u", "possible")),
        # https://github.com/intel/tiny-dpcpp-nn/issues/13
        (("Cloning into '/s/extern/pybind11'...", "git@github.com: Permission denied (publickey).",
          "fatal: Could not read from remote repository."), ("git-over-ssh", "certain")),
        (("Host key verification failed.", "fatal: Could not read from remote repository."),
         ("git-over-ssh", "certain")),
        (("remote: Repository not found.", "fatal: repository 'https://x.example/y.git/' not found"),
         ("git-repository-not-found", "possible")),
        # https://github.com/intel/intel-extension-for-pytorch/issues/388
        (("RuntimeError: Native API failed. Native API returns: -996 (Function exists)",
          'invalid_kernel("uses-fp64-math")'), ("fp64-not-supported", "certain")),
        (("RuntimeError: No kernel named _ZTSx was found -46 (PI_ERROR_INVALID_KERNEL_NAME)",),
         ("kernel-not-in-program", "possible")),
        (("ImportError: libmkl_sycl.so.3: cannot open shared object file: No such file or directory",),
         ("library-not-found", "certain")),
        (("ERROR: Ignored the following versions that require a different python version: 1.2 Requires",
          f"{NONE} triton-xpu==3.6.0 (from torch) (from versions: 3.0.0b2, 3.2.0b1)",
          "ERROR: No matching distribution found for triton-xpu==3.6.0"),
         ("xpu-index-not-asked", "likely")),
        ((f"{NONE} torch==2.9.0+xpu (from versions: none)",),
         ("pip-no-matching-version", "possible")),
        (("ocloc: Could not determine device target: bmg_g31.", "  Available devices: skl, kbl, ats-m150"),
         ("ocloc-unknown-device", "certain")),
        (("ocloc: Could not determine device target: pcv.",), ("ocloc-unknown-device", "possible")),
        (("torch._inductor.exc.InductorError: RuntimeError: ocloc failed with error code 250", "ocloc err:",
          "Error! Loading of IGC library has failed! Filename: libigc.so.2"), ("igc-not-loaded", "certain")),
        (("Error response from daemon: Unable to find group render: no matching entries in group file",),
         ("container-refused", "certain")),
        (("Error response from daemon: frob is not possible",), ("container-refused", "possible")),
        ((f"{OOM} 8.00 GiB. {TOTAL} 0 bytes is allocated by PyTorch, and 0 bytes is reserved by PyTorch",),
         ("xpu-refused-with-room", "possible")),
        ((f"{OOM} 1.00 GiB. {TOTAL} 8.00 GiB is allocated by PyTorch, and 6.50 GiB is reserved by PyTorch",),
         ("xpu-memory-in-pieces", "certain")),
        # pip indents what a build prints: the message is that of the line in which it stands.
        (("  error: subprocess-exited-with-error", "      -- The CXX compiler identification is GNU 11.4.0",
          "      CMake Error at CMakeLists.txt:12 (find_package):",
          '        By not providing "FindTorch.cmake" in CMAKE_MODULE_PATH this project', "      -- Done"),
         ("cmake-package-not-found", "likely")),
        # Firmware that the driver fails without, and firmware of a part that it does without.
        (("xe 0000:03:00.0: Direct firmware load for xe/bmg_guc.bin failed with error -2",
          "xe 0000:03:00.0: probe with driver xe failed with error -2"),
         ("kernel-firmware-missing", "certain")),
        (("i915 0000:00:02.0: Direct firmware load for i915/mtl_gsc.bin failed with error -2",
          "[drm] Initialized i915 1.6.0 for 0000:00:02.0 on minor 0"),
         ("kernel-firmware-missing", "possible")),
        (("docker: permission denied while trying to connect to the Docker daemon socket at unix://v",),
         ("container-refused", "certain")),
        (("/usr/bin/ld: cannot find -lze_loader: No such file or directory",),
         ("linker-lacks-library", "certain")),
        # What stands far from the first error, or before the prompt of another command, is not its cause.
        (("No platforms found - run with '--verbose' to get more details.", "# apt install -y wget",
          "# wget a", "# apt install ./a.deb", "# bin/sycl-ls", "Segmentation fault (core dumped)"),
         ("crash-of-program", "possible")),
        (("ImportError: libsycl.so.8: cannot open shared object file", *["ok"] * 13,
          "a.cpp:1:2: error: frobs", "exit code: 1"), ("libsycl-not-found", "certain")),
        (("a.cpp:1:2: error: frobs", *["ok"] * 13, "No module named 'pkg_resources'", "exit code: 1"),
         ("compiler-rejects", "possible")),
        (("The device does not have the ext_intel_free_memory aspect -33 (PI_ERROR_INVALID_DEVICE)",),
         ("kernel-incompatible-with-devices", "certain")),
    ],
)  # fmt: skip
def test_a_message_says_no_more_than_its_variable_part_decides(
    lines: Iterable[str], best: tuple[str, str]
) -> None:
    assert next(iter(says(*lines).items())) == best


@pytest.mark.parametrize(
    ("lines", "first"),
    [
        (("ValueError: no", "INFO: Application startup complete.", "TimeoutError: later", "exit code: 1"), 3),
        (("ValueError: no", "[3/9] Building CXX object a.o", "RuntimeError: later", "exit code: 1"), 1),
        (("icpx: error: gen compiler command failed with exit code 1",
          "ocloc: Could not determine device target: abc."), 2),
        (("  Failed to build `torch @ file:///src`", "      CMake Error at CMakeLists.txt:26 (project):"), 2),
        (("a.h:622: operator(): global id: [129,0,0], local id: [1,0,0] Assertion `i < n` failed.",), 1),
        (("Size of SLM (656384) larger than available (131072)",
          "terminate called after throwing an instance of 'sycl::_V1::exception'"), 1),
        (("subprocess.CalledProcessError:", "   Command '['icpx', 'a.cpp']' returned non-zero exit status 1.",
          "RuntimeError: llvm-foreach: Illegal instruction (core dumped)"), 3),
        (("cat: old.log: No such file or directory", *["ok"] * 20, "FAILED: [code=127] a.o",
          "frob -c a.cpp", "/bin/sh: 1: frob: not found", "ninja: build stopped: subcommand failed."), 24),
        (("a/test_frob 1/1 failed! Received signal: SIGBUS", "cat: x: No such file or directory"), 1),
        (("1/2 Test #1: frob ..........***Exception: SegFault  0.10 sec",), 1),
        (("oneCCL: frob.cpp:1 frob: EXCEPTION: no",), 1),
        (("FATAL: Unexpected page fault from GPU at 0xff", "Abort was called at 7 line in file:"), 1),
        (("Host key verification failed.", "fatal: Could not read from remote repository."), 1),
        (("ERROR: Ignored the following yanked versions: 0.0.2",
          "ERROR: Could not find a version that satisfies the requirement frob"), 2),
        (("Compilation from IR - skipping loading of FCL", "bad spirv bitcode: spirv_read_verify: no",
          "Build failed with error code: -11"), 2),
        (("n:rank1: Assertion failure at psm3/ptl_am/ptl.c:196: n == m", "= BAD TERMINATION OF ONE"), 1),
        (("torch._inductor.exc.InductorError: RuntimeError: ocloc failed with error code 250", "ocloc err:",
          "Error! Loading of IGC library has failed! Filename: libigc.so.2"), 3),
        (("L0 build module failed. Log: IGC: Internal Compiler Error: x",
          "Error during Intel loadBinary: ZE_RESULT_ERROR_MODULE_BUILD_FAILURE"), 1),
        (("CMake Error at /v/share/cmake/Caffe2/Caffe2Targets.cmake:61 (set_target", "The link int"), 1),
        (("CCL_ERROR: entry: RECV failed. atl_status: FAILURE",
          "terminate called after throwing an instance of 'ccl::v1::exception'"), 1),
        (("error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly", "fatal: early EOF",
          "Receiving objects: 100% (9/9), done.", "x.cpp:1:1: error: frobnication is not possible"), 4),
        ((STEP, "ValueError: no"), 2),
        (("ValueError: no", STEP, STEP), None),
        *(((line, "all is well"), None) for line in (
            "$ cd ~/torch-ccl-segfault", "user@pvc:~/torch-ccl-segfault$ mpirun -n 2 python ok.py",
            "-- Performing Test HAS_ERROR - Failed", "error: 0 errors", "loss error rate: 0.1",
            "-- Looking for no_error.h - not found", "tests/a.py::test_error PASSED")),
    ],
)  # fmt: skip
def test_the_first_error_is_that_of_the_program_that_failed(lines: Iterable[str], first: int | None) -> None:
    found = explained(*lines).first_error
    assert (found.line if found else None) == first


@pytest.mark.parametrize(
    "lines",
    [
        ("[2022-07-13 08:59:50] [I] [8] starts", "[2022-07-13 08:59:51] [E] [8] GPUDeviceStub::init frobs"),
        ("onednn_verbose,v1,common,error,runtime,frob not found,src/gpu/utils.cpp:137",),
        ("host: n1, port issue: { status: failed, details: training timeout }",),
        ("The self-hosted runner: r1 lost communication with the server. Verify the machine is running",),
        ("$ python setup.py develop", "Traceback (most recent call last):", '  File "setup.py", line 5'),
        ("Number of platforms               2", "# clinfo", "Number of platforms               0"),
    ],
)
def test_a_complaint_is_never_answered_with_no_error(lines: Iterable[str]) -> None:
    assert explained(*lines).first_error is not None


def test_the_command_asks_the_server_that_failed() -> None:
    lines = (
        "fatal: unable to access 'https://u:word@git.example.org/a/': The requested URL returned error: 502",
        "fatal: clone of 'https://git.example.org/a.git' into submodule path 'a' failed",
    )
    best = explained(*lines).findings[0]
    assert (best.id, best.confidence) == ("server-answered", "certain")
    assert "https://git.example.org " in best.next_command
    assert "word" not in best.next_command
    ssh = explained("git@git.example.org: Permission denied (publickey).").findings[0]
    assert "git.example.org" in ssh.title


FRAME = '  File "{}", line 7, in forward'
OWN, TORCH, PACKAGE = map(
    FRAME.format, ("/w/train.py", "/v/site-packages/torch/a.py", "/v/site-packages/frob/a.py")
)


@pytest.mark.parametrize(
    ("lines", "rule", "told"),
    [
        (("/w/third_party/torch-xpu-ops/src/a.cpp:3:4: error: frobs",), "compiler-rejects", "torch-xpu-ops"),
        (("/usr/include/frob.h:3:4: error: frobs",), "compiler-rejects", "header of the system"),
        (("/w/app/a.cpp:3:4: fatal error: frobs",), "compiler-rejects", "project that is built"),
        (("CMake Error at a/b.cmake:3 (message):", "  The frob is old."), "cmake-stops", "check something"),
        ((OWN, TORCH, "ValueError: frobs"), "raised-in-python", "PyTorch itself"),
        ((TORCH, OWN, "ValueError: frobs"), "raised-in-python", "program's own code"),
        ((OWN, PACKAGE, "frob.FrobError: no"), "raised-in-python", "an installed package"),
        (("FAILED: a.o", "frob -c a.cpp", "ninja: build stopped: subcommand failed."),
         "reason-not-shown", "(a.o)"),
        (("xe 0000:03:00.0: [drm] *ERROR* GT0: frob: -EIO",), "kernel-driver-reports", "driver failed"),
        (("Program received signal SIGSEGV", "#0  0x00007fff in ?? () from /lib/libigc.so.2"),
         "crash-in-library", "GPU driver's compiler"),
    ],
)  # fmt: skip
def test_the_kind_of_an_error_is_said_where_its_cause_is_not_known(
    lines: Iterable[str], rule: str, told: str
) -> None:
    best = explained(*lines).findings[0]
    assert (best.id, best.confidence) == (rule, "possible")
    assert told in best.cause


@pytest.mark.parametrize(
    "lines",
    [
        # A known cause is enough, here or in the lines of the same error;
        (OWN, "NotImplementedError: The operator 'aten::x' is not currently implemented for the XPU device"),
        ("a.cpp:1:2: error: undefined reference to `MPI_Init'",),
        # what follows the first error has no kind of its own.
        ("icpx: frobs", "ImportError: libsycl.so.8: cannot open shared object file", "ValueError: no", OWN),
    ],
)
def test_a_kind_gives_way_to_a_cause(lines: Iterable[str]) -> None:
    found = explained(*lines).findings
    assert found
    assert not [item.id for item in found if item.family == "by-kind"]


def test_an_excerpt_may_have_an_error_that_a_long_log_has_not() -> None:
    line = "frob is not supported on this device"
    assert explained(line).first_error.kind == "remark"
    assert explained(line, *SKIPPED).first_error is None
    assert explained("WARNING: Failed to query frob").first_error is None


def test_a_relative_path_is_named_whole() -> None:
    best = explained("error: [Errno 2] No such file or directory: '../frob/version.txt'").findings[0]
    assert best.title.endswith(" ../frob/version.txt")
    assert "ls -ld ../frob/version.txt;" in best.next_command


INSIDE = "ImportError: cannot import name 'x' from 'torch.frob' (/v/site-packages/torch/frob.py)"


def test_files_of_one_installed_package_are_of_one_release() -> None:
    inside = '  File "/v/site-packages/torch/a.py", line 3, in <module>'
    found = says('  File "/v/app/main.py", line 1, in <module>', inside, INSIDE)
    assert found == {"raised-in-python": "possible"}
    outside = '  File "/v/app/main.py", line 1, in <module>'
    assert "python-interface-differs" in says(inside, outside, INSIDE)


@pytest.mark.parametrize(
    ("line", "cure", "command"),
    [
        ("frob needs a path: set FROB_PATH=/x explicitly", "FROB_PATH=/x", "export FROB_PATH=/x"),
        ("Please use FROB_ARCH environment variable to name it", "FROB_ARCH", "printenv FROB_ARCH"),
        ("To do it again, use the '--frob' option.", "--frob", "xpubuild doctor --profile run"),
        ("run 'frob --all' to fix it", "frob --all", "xpubuild doctor --profile run"),
        ("Please install frob; touch x", "frob; touch x", "xpubuild doctor --profile run"),
        ("Please set FROB=$(touch${IFS}x)", "FROB=$(touch${IFS}x", "export NAME"),
    ],
)
def test_a_message_that_names_its_cure_is_taken_at_its_word(line: str, cure: str, command: str) -> None:
    best = explained("RuntimeError: it frobs", line).findings[0]
    assert (best.id, best.confidence, best.next_command) == ("cure-in-message", "possible", command)
    assert best.title.endswith(cure)


@pytest.mark.parametrize(
    "lines",
    [
        # What harms or only shows more is none,
        *(("RuntimeError: it frobs", line) for line in (
        "Please run 'git reset --hard' and try again", "try running 'pip install --force-reinstall torch'",
        "For debugging consider setting FROB_BLOCKING=1", "To see the stack trace, please set FROB_TRACE=1",
        "If memory is fragmented try setting FROB_CONF=expandable",
        "to suppress this, please set FROB_QUIET=1")),
        # nor is that of another error than the first,
        ("please set FROB=1", "RuntimeError: it frobs"),
        ("RuntimeError: it frobs", *["ok"] * 20, "please set FROB=1"),
        # nor is a heading evidence.
        ("The program was built for 1 devices", "Build program log for 'x':"),
    ],
)  # fmt: skip
def test_what_is_no_cure_and_no_evidence(lines: Iterable[str]) -> None:
    assert not {"cure-in-message", "kernel-not-in-program"} & says(*lines).keys()


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("ur_die: getZeQueue: failed to create queue", "signal"),
        ("Assertion failed in file src/mpid/ch4/src/init_comm.c at line 72: in_use == 0", "signal"),
        ("node1: rank 256 died from signal 6", "signal"),
        ("Abort was called at 63 line in file:", "signal"),
        ("Bus error (core dumped)", "signal"),
        ("[node1:12] *** Process received signal ***", "signal"),
        ("double free or corruption (!prev)", "signal"),
        ("python: a.cpp:3: void f(): Assertion `x > 0' failed.", "signal"),
        (
            "Abort(1615503) on node 0 (rank 0 in comm 0): Fatal error in internal_Init: Other MPI error",
            "distributed",
        ),
    ],
)
def test_a_crash_is_the_first_error_with_its_frame(line: str, kind: str) -> None:
    frame = "#0  0x00007f in frob() from /usr/lib/libfrob.so"
    first = explained("start", line, frame, "later: error: no").first_error
    assert (first.line, first.kind) == (2, kind)
    assert first.frame == (frame if kind == "signal" else None)


def test_a_message_that_cmake_wrapped_is_shown_whole() -> None:
    log = "CMake Error at a/b.txt:3 (message):\n  The frob of this\n  project is missing.\n\n-- Done\n"
    first = explain_stream(io.BytesIO(log.encode())).first_error
    assert first.text.endswith("The frob of this project is missing.")
    assert first.step == "configuring"


def test_doctor_decides_and_is_named() -> None:
    log = b"UserWarning: XPU device count is zero! (Triggered internally)\nRuntimeError: no\n"

    def answer(**checks: str) -> tuple[str, str | None]:
        known = Circumstances(checks={name.replace("__", "."): text for name, text in checks.items()})
        best = explain_stream(io.BytesIO(log), known).findings[0]
        return best.confidence, best.decided_by

    assert answer() == ("possible", None)
    assert answer(gpu__render_access="fail") == ("certain", "gpu.render_access: fail")
    assert answer(gpu__render_access="ok", gpu__present="ok")[0] == "possible"


@pytest.mark.parametrize(
    ("line", "secret"),
    [
        ("RuntimeError: cannot open /home/jane.doe/models/secret-project/weights.bin for reading", "jane"),
        ("RuntimeError: cannot open ~jane/x for reading of frob", "jane"),
        ("fatal: frob of 'C:\\Users\\jane\\My Files\\x' is broken", "jane"),
        ("OSError: frob '/lustre/orion/proj-shared/My Data/run 7/ckpt' is broken", "Data"),
        ("fatal: jane@login3.site.example: frobnication denied by the host", "jane"),
        ("error: frob /gpfs/users/jane/env/lib/libfrob.so: bad", "jane"),
    ],
)
def test_no_user_and_no_path_is_offered_for_a_search(line: str, secret: str) -> None:
    answer = explained(line)
    assert answer.first_error is not None
    terms = " ".join(answer.search_terms)
    assert secret not in terms
    assert "frob" in terms or "cannot open" in terms


def test_many_errors_cost_little(capsys: pytest.CaptureFixture[str]) -> None:
    import time

    log = b"".join(
        b"/s/a%d.cpp:%d:3: error: undefined reference to `s%d'\n" % (n, n, n * 7919) for n in range(100_000)
    )
    started = time.process_time()
    answer = explain_stream(io.BytesIO(log))
    assert time.process_time() - started < 10
    assert answer.lines == 100_000
    assert answer.first_error.line == 1
    assert run(["explain", "--list"]) == 0
    assert "libsycl-not-found" in capsys.readouterr().out
