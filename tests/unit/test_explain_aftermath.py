"""What a run did not fail of is no more than possible; what it failed of keeps its confidence."""

from __future__ import annotations

import io

import pytest
from support.explain_logs import explained

from xpubuild.explain.aftermath import Aftermath
from xpubuild.explain.scan import scan

# https://github.com/vllm-project/vllm/issues/48953
TOPOLOGY = (
    "2026:07:17-12:29:00:(  532) |CCL_WARN| topology recognition shows PCIe connection between devices. "
    "If this is not correct, you can disable topology recognition, with "
    "CCL_TOPO_FABRIC_VERTEX_CONNECTION_CHECK=0."
)
# https://github.com/intel/intel-extension-for-pytorch/issues/810
LAUNCHER = (
    "2025:05:23-19:04:19:(168949) |CCL_WARN| did not find MPI-launcher specific variables, switch to ATL/OFI,"
    " to force enable ATL/MPI set CCL_ATL_TRANSPORT=mpi"
)
# In the form of torch/csrc/distributed/c10d/socket.cpp (https://github.com/pytorch/pytorch).
SOCKET = (
    "[rank3]:[W729 10:00:01.123 socket.cpp:752] [c10d] The client socket has failed to connect to"
    " [node01]:29500 (errno: 97 - Address family not supported by protocol)."
)
# https://github.com/Tavris1/ComfyUI-Easy-Install/issues/192
NOTE = (
    "ERROR: pip's dependency resolver does not currently take into account all the packages that are "
    "installed. This behaviour is the source of the following dependency conflicts.\n"
    'torch 2.11.0 requires triton==3.6.0; platform_system == "Linux", but you have triton 3.5.1 which is '
    "incompatible."
)
# https://github.com/curl/curl/issues/16732
RETRIED = (
    "error: RPC failed; curl 92 HTTP/2 stream 5 was not closed cleanly: CANCEL (err 8)\n"
    "error: 491 bytes of body are still expected\n"
    "fetch-pack: unexpected disconnect while reading sideband packet\n"
    "fatal: early EOF\nfatal: fetch-pack: invalid index-pack output"
)
# https://github.com/pytorch/pytorch/issues/51723
RETRYING = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after "
    "connection broken by 'NewConnectionError('<pip._vendor.urllib3.connection.HTTPSConnection object at "
    "0x7ff99f4f7970>: Failed to establish a new connection: [Errno -3] Temporary failure in name "
    "resolution')': /whl/torch_stable.html"
)
# https://github.com/oneapi-src/unified-runtime/issues/2742
ADAPTER = (
    "[INFO]: failed to load adapter 'libur_adapter_level_zero.so.0' with error: /storage/users/abc/intel/"
    "oneapi/compiler/2025.0/lib/libur_adapter_level_zero.so.0: undefined symbol: zeDeviceGetRootDevice"
)
STEPS = "step 1 loss 2.31\nstep 2 loss 2.01"
FAILURE = "Traceback (most recent call last):\nRuntimeError: oneCCL: ccl_comm.cpp: EXCEPTION: failed"


@pytest.mark.parametrize(
    "log",
    [
        f"{TOPOLOGY}\n{STEPS}",
        f"{TOPOLOGY}\nINFO:     Application startup complete.",
        f"{LAUNCHER}\nEpoch 1/3: loss=2.3",
        f"{SOCKET}\n{STEPS}",
        f"{SOCKET}\n" + "a line of another program\n" * 30_000 + STEPS,
        f"{NOTE}\nSuccessfully installed triton-3.5.1",
        f"{RETRIED}\nReceiving objects: 100% (120/120), done.\nResolving deltas: 100% (7/7), done.",
        f"{RETRYING}\nSuccessfully installed torch-2.11.0",
        ADAPTER.replace("level_zero", "opencl"),
        f"{ADAPTER}\n[level_zero:gpu][level_zero:0] Intel(R) Arc(TM) Graphics",
    ],
)
def test_what_did_not_stop_a_run_is_only_possible(log: str) -> None:
    assert [item for item in explained(log).findings if item.confidence >= 0.5] == []


@pytest.mark.parametrize("failure", ["", FAILURE, "mpirun: rank 3 exited with code 1"])
@pytest.mark.parametrize("warning", [TOPOLOGY, SOCKET])
def test_a_run_that_took_no_step_did_not_start(warning: str, failure: str) -> None:
    found = explained(f"{warning}\n{failure}").findings[0]
    assert found.family == "AB-distributed-start"
    assert found.confidence >= 0.5


@pytest.mark.parametrize("log", [f"{TOPOLOGY}\n{STEPS}\n{FAILURE}", f"{STEPS}\n{TOPOLOGY}\n{FAILURE}"])
def test_a_run_that_failed_after_its_first_step_had_started(log: str) -> None:
    likely = {item.family for item in explained(log).findings if item.confidence >= 0.5}
    assert "AB-distributed-start" not in likely


@pytest.mark.parametrize(
    "text",
    [
        f"{NOTE}\nSuccessfully installed triton-3.5.1\n{FAILURE}",
        NOTE,
        ADAPTER,
        f"{RETRIED}\n[3/9] Building CXX object a.o",
        f"{RETRIED}\nReceiving objects: 100% (120/120), done.\nfatal: early EOF",
        f"{RETRYING}\nSuccessfully installed pip-26.0\nERROR: No matching distribution found for torch",
    ],
)
def test_a_failure_keeps_its_cause(text: str) -> None:
    assert explained(text).findings[0].confidence >= 0.5


@pytest.mark.parametrize(
    "stop",
    [
        "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES", "Aborted (core dumped)", "exit code 137",
        "Abort was called at 1 line in file", "rank 1 died from signal 11", "ninja: build stopped: failed.",
        "Assertion failed in file a.c at line 7: x", "Process completed with exit code 1.",
    ],
)  # fmt: skip
def test_a_stop_is_a_failure(stop: str) -> None:
    assert scan(io.BytesIO(f"{SOCKET}\nstep 1 loss 2\n{stop}\n".encode())).aftermath == Aftermath(
        failed=3, step=2, trained=True
    )


def test_what_a_run_did_not_fail_of_comes_after_what_it_failed_of() -> None:
    # https://github.com/pytorch/pytorch/issues/135867
    error = "ImportError: libze_loader.so.1: cannot open shared object file: No such file or directory"
    assert explained(f"{TOPOLOGY}\n{STEPS}\n{error}").findings[0].line == 4


@pytest.mark.parametrize("line", ["exit code 0", "-- Looking for aborted", "a.py::test_killed PASSED"])
def test_what_ends_well_is_none(line: str) -> None:
    assert scan(io.BytesIO(f"{SOCKET}\n{line}\n".encode())).aftermath.failed == 0
