"""What explain must not say of a build that is for another device, and what its filter may not lose."""

from __future__ import annotations

import io

import pytest

from xpubuild.explain.document import Circumstances, explain_stream
from xpubuild.explain.prefilter import Prefilter

FALL_BACK = "Not compiling with XPU. Could NOT find SYCL"


def found(*lines: str, facts: frozenset[str] = frozenset()) -> list[str]:
    stream = io.BytesIO("\n".join((*lines, "")).encode())
    return [finding.id for finding in explain_stream(stream, Circumstances(facts=facts)).findings]


@pytest.mark.parametrize(
    "said", ["cmake -DUSE_CUDA=1 ..", "--   USE_CUDA              : ON", "cmake -DUSE_XPU=0 .."]
)
def test_a_build_for_another_device_lacks_nothing(said: str) -> None:
    assert found(said, FALL_BACK) == []
    assert found(said, FALL_BACK, facts=frozenset({"xpu-not-wanted"})) == []


def test_a_build_for_xpu_does() -> None:
    assert found("cmake -DUSE_XPU=1 ..", FALL_BACK) == ["setvars-not-sourced-silent-cpu-build"]
    assert found("cmake -DUSE_XPU=1 -DUSE_CUDA=1 ..", FALL_BACK) == ["setvars-not-sourced-silent-cpu-build"]
    assert found(FALL_BACK) == ["setvars-not-sourced-silent-cpu-build"]


@pytest.mark.parametrize(
    ("line", "hits"),
    [
        (b"c++ -Werror=return-type -Wno-error=pedantic -c a.cpp", 0),
        (b"c++ -Wno-error=pedantic -c a.cpp: error: bad", 1),
        (b"g++ c10/util/Exception.cpp torch/csrc/Exceptions.h", 0),
        (b"what(): sycl::exception", 1),
        (b"RuntimeException: no", 1),
        (b"ERROR_DEVICE_LOST", 1),
        (b"ErrorReport.cpp", 0),
    ],
)
def test_switches_and_file_names_are_no_errors(line: bytes, hits: int) -> None:
    assert len(Prefilter(["error", "exception"]).hits(line + b"\n", 0, len(line) + 1)) == hits
