"""Why PyTorch goes on without XPU: its warnings differ in cause, and the hint in one of them is no switch."""

from __future__ import annotations

import io

import pytest
from support.fall_back import NO_KERNELS, NOT_GCC, NOT_GCC_WARNING

from xpubuild.artifacts.expectation import Expectation
from xpubuild.artifacts.step_watcher import FATAL_WORDS, StepWatcher
from xpubuild.engine.model import Stop
from xpubuild.errors import XpuBuildError
from xpubuild.explain.document import explain_stream
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.watch import LogWatcher

# https://github.com/pytorch/pytorch/blob/v2.6.0/cmake/Dependencies.cmake#L94, as CMake wraps it
NO_SYCL = """\
CMake Warning at cmake/Dependencies.cmake:94 (message):
  Not compiling with XPU.  Could NOT find SYCL.  Suppress this warning with
  -DUSE_XPU=OFF.
Call Stack (most recent call first):
  CMakeLists.txt:868 (include)


-- Building using own protobuf under third_party per request.
"""
SILENT, HOST, KERNELS = (
    "setvars-not-sourced-silent-cpu-build",
    "host-compiler-not-gcc",
    "xpu-kernels-not-included",
)


def found(text: str) -> list[str]:
    return [finding.id for finding in explain_stream(io.BytesIO(text.encode())).findings]


@pytest.mark.parametrize(
    "text",
    [
        NO_SYCL,
        NO_SYCL.replace("  Suppress", "Suppress"),  # as in pytorch issue 127008
        NO_SYCL.replace("with\n  -D", "with -D"),
        NO_SYCL.replace("this warning with\n  -D", "this\n  warning with -D"),
        NO_SYCL.replace("with\n  -DUSE_XPU=OFF.", "with '-DUSE_XPU=OFF'"),
        "\n".join("  " + line for line in NO_SYCL.split("\n")),
        " ".join(NO_SYCL.split()) + "\n",
        NO_SYCL + "Set USE_XPU=0 to build without it\n",
    ],
)
def test_the_hint_in_the_warning_is_no_wish(text: str) -> None:
    assert found(text) == [SILENT]
    watcher = LogWatcher()
    assert [item.id for item in map(watcher.feed, text.split("\n")) if item] == [SILENT]


@pytest.mark.parametrize(
    "said",
    [
        "cmake -GNinja -DUSE_XPU=OFF -DUSE_MPI=0 ..",
        "cmake .. -DUSE_XPU=0",
        "cmake -DUSE_XPU:BOOL=OFF ..",
        "-- cmake '-DUSE_XPU=OFF' /src/pytorch",
        "$ env CC=gcc USE_XPU=0 pip wheel .",
        "export USE_XPU=0",
        "USE_XPU=0",
        "USE_XPU='0'",
    ],
)
@pytest.mark.parametrize("message", [NO_SYCL, NOT_GCC, NO_KERNELS])
def test_a_switch_that_is_set_is(said: str, message: str) -> None:
    assert found(f"{said}\n{message}") == []
    assert found(f"{message}{said}\n") == []


@pytest.mark.parametrize("wish", ["", "cmake -DUSE_XPU=1 ..\n", "cmake -DUSE_XPU:BOOL=ON -DUSE_CUDA=1 ..\n"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (NOT_GCC, HOST),
        (NOT_GCC_WARNING, HOST),
        (NO_KERNELS, KERNELS),
        (NOT_GCC + NO_KERNELS, HOST),
        (NO_SYCL, SILENT),
    ],
)
def test_each_reason_is_told_as_what_it_is(wish: str, text: str, expected: str) -> None:
    assert found(wish + text) == [expected]


def test_a_compiler_that_is_not_gcc_belongs_to_the_host_compilers() -> None:
    (finding,) = explain_stream(io.BytesIO(NOT_GCC.encode())).findings
    assert finding.family == "J-host-compiler-version"
    assert finding.probes == ("toolchain.gcc",)
    assert "CXX=g++" in finding.next_command


@pytest.mark.parametrize(
    ("release", "text", "rule"),
    [
        ("2.13.0", NOT_GCC, HOST),
        ("2.14.0", NOT_GCC_WARNING, HOST),
        ("2.6.0", NO_KERNELS, KERNELS),
    ],
)
def test_the_gates_error_and_its_explanation_agree(release: str, text: str, rule: str) -> None:
    watcher = StepWatcher(xpu=True, expected=Expectation(release, {"USE_XPU": "1"}, "/src/torch"))
    verdicts = [
        item for number, line in enumerate(text.splitlines(), 1) for item in watcher.line(line, number)
    ]
    verdicts += [*watcher.poll(), *watcher.poll(ended=True)]
    (stop,) = verdicts
    assert isinstance(stop, Stop)
    assert stop.error.evidence["rule"] == rule
    explanation = watcher.explain(stop.error).explanation
    assert explanation is not None
    assert [item["id"] for item in explanation["findings"]] == [rule]


def test_what_it_suggests_names_the_recipe() -> None:
    watcher = StepWatcher(xpu=False, expected=None, recipe="2.8")
    watcher.line("ERROR: 407 Proxy Authentication Required", 1)
    explanation = watcher.explain(XpuBuildError("failed")).explanation
    assert explanation is not None
    assert "xpubuild doctor --recipe 2.8 --only" in explanation["findings"][0]["next_command"]


@pytest.mark.parametrize("text", [NOT_GCC, NO_KERNELS])
def test_a_build_that_was_not_asked_for_xpu_goes_on(text: str) -> None:
    watcher = StepWatcher(xpu=False, expected=None)
    assert [*watcher.line(text.splitlines()[-1], 1), *watcher.poll(ended=True)] == []


def test_a_line_that_may_stop_a_command_is_known_without_the_rules() -> None:
    """Until these are read, no other line is looked at."""
    fatal = [entry for entry in shipped_rules().signatures if entry.fatal]
    assert fatal
    literals = [literal for entry in fatal for matcher in entry.match for literal in matcher.find]
    assert [item for item in literals if not any(word in item for word in FATAL_WORDS)] == []


def test_the_rules_are_not_read_for_a_command_that_prints_little() -> None:
    watcher = StepWatcher(xpu=False, expected=None)
    assert [*watcher.line("all is well", 1), *watcher.poll(), *watcher.poll(ended=True)] == []
    assert watcher._log is None
    for number in range(2, 300):
        watcher.line("all is still well", number)
    assert list(watcher.poll()) == []
    assert watcher._log is not None
    explained = watcher.explain(XpuBuildError("failed"))
    assert explained.explanation is None


def test_an_error_in_the_rules_is_told_and_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> LogWatcher:
        raise FileNotFoundError("kinds.yaml")

    monkeypatch.setattr("xpubuild.artifacts.step_watcher.LogWatcher", broken)
    with pytest.raises(FileNotFoundError):
        StepWatcher(xpu=False, expected=None).explain(XpuBuildError("failed"))
