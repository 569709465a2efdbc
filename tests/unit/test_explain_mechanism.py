"""Signatures catch the mechanism: other versions, paths, quotes and line breaks than in the samples."""

from __future__ import annotations

import io

import pytest
from support.explain_logs import ordinary, variants

from xpubuild.distribution import System
from xpubuild.explain.document import Circumstances, Explanation, conclude, explain_stream
from xpubuild.explain.estimate import LIKELY
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.scan import scan
from xpubuild.explain.searchterms import search_terms


def explained(*lines: str) -> Explanation:
    log = [*ordinary(60, 1), *lines, *ordinary(60, 2)]
    return explain_stream(io.BytesIO(("\n".join(log) + "\n").encode()))


def best(*lines: str) -> str | None:
    findings = explained(*lines).findings
    return findings[0].id if findings else None


@pytest.mark.parametrize(("expected", "line"), variants())
def test_other_versions_and_paths(expected: str, line: str) -> None:
    assert best(line) == expected


def test_a_message_that_cmake_wrapped_elsewhere() -> None:
    message = [
        "CMake Error at third_party/gloo/CMakeLists.txt:1 (cmake_minimum_required):",
        "  Compatibility with CMake",
        "  < 3.5 has been removed from CMake.",
    ]
    assert best(*message) == "cmake-4-policy-minimum-protobuf"
    interleaved = [message[0], "[5/9] Building C object a.o", message[1], "[6/9] Linking b", message[2]]
    assert best(*interleaved) == "cmake-4-policy-minimum-protobuf"


def test_a_later_warning_of_cmake_does_not_borrow_the_lines_of_another() -> None:
    assert best(
        "CMake Warning (dev) at x/CMakeLists.txt:2 (option):",
        "  Policy CMP0077 is not set",
        "CMake Error at y/CMakeLists.txt:1 (cmake_minimum_required):",
        "  Compatibility with CMake < 3.5 has been removed from CMake.",
    )
    answer = explained(
        "CMake Warning at x:2 (message):", "-- done", "  Compatibility with CMake < 3.5 has been"
    )
    assert answer.findings == ()


WARNING = [
    "CMake Warning at cmake/Dependencies.cmake:95 (message):",
    "  Not compiling with XPU.  Could NOT find",
]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["cmake -DUSE_XPU=ON ..", *WARNING, "  SYCL."], 0.9),
        ([*WARNING, "  SYCL."], 0.8),
        (["export USE_XPU=1", "--   USE_XPU               : OFF"], 0.9),
        (["cmake -DUSE_XPU=OFF ..", *WARNING], None),
        (["--   USE_XPU               : OFF"], None),
        (["cmake -DUSE_XPU=OFF ..", "--   USE_XPU               : OFF"], None),
    ],
)
def test_the_silent_fall_back_counts_where_xpu_was_asked_for(
    lines: list[str], expected: float | None
) -> None:
    findings = explained(*lines).findings
    if expected is None:
        assert findings == ()
    else:
        assert findings[0].id == "setvars-not-sourced-silent-cpu-build"
        assert findings[0].confidence >= expected


CRASH = ["import torch; torch.xpu.is_available()", "Segmentation fault (core dumped)"]


def test_one_text_with_several_causes_is_told_with_low_confidence() -> None:
    findings = explained(*CRASH).findings
    assert {finding.family[0] for finding in findings} >= {"E", "Z"}
    assert all(finding.confidence <= 0.5 for finding in findings)


def test_the_rest_of_the_log_decides() -> None:
    jit = explained('File "/tmp/torchinductor_user/ab/cab.py", line 3', *CRASH).findings
    assert jit[0].id == "torch-compile-segv-libsycl-8-vs-9"
    wsl = explained("Linux 6.6.87.2-microsoft-standard-WSL2 x86_64", *CRASH).findings
    assert wsl[0].id == "wsl2-is-available-segfault"


def test_doctor_decides_between_causes() -> None:
    outcome = scan(io.BytesIO("\n".join([*CRASH, ""]).encode()))
    failed = conclude(outcome, Circumstances(checks={"level_zero.enumerate": "fail"})).findings
    assert failed[0].id == "device-properties-segv-loader-driver-mismatch"
    assert failed[0].confidence > 0.8
    healthy = conclude(outcome, Circumstances(checks={"level_zero.enumerate": "ok"})).findings
    assert healthy[0].id == "wsl2-is-available-segfault"


def test_the_next_command_is_that_of_the_distribution() -> None:
    outcome = scan(io.BytesIO(b"ImportError: libze_loader.so.1: cannot open shared object file\n"))
    asked = {
        name: conclude(outcome, Circumstances(system=System((name,)))) for name in ("debian", "rhel", "x")
    }
    commands = {name: answer.findings[0].next_command for name, answer in asked.items()}
    assert commands["debian"] == "sudo apt-get update && sudo apt-get install -y libze1"
    assert commands["rhel"] == "sudo dnf install -y level-zero"
    assert commands["x"] == "ldconfig -p | grep libze_loader"


@pytest.mark.parametrize(
    ("system", "loader", "driver"),
    [
        ("fedora", "oneapi-level-zero", "intel-level-zero"),
        ("rhel", "level-zero", "intel-level-zero-gpu"),
        ("ubuntu", "libze1", "libze-intel-gpu1"),
    ],
)
def test_packages_have_the_names_of_the_distribution(system: str, loader: str, driver: str) -> None:
    """Fedora's are its own; RHEL takes Intel's (upstream PyTorch, install_xpu.sh)."""
    outcome = scan(io.BytesIO(b"error: zeInit failed: ZE_RESULT_ERROR_UNINITIALIZED\n"))
    known = Circumstances(system=System((system,)))
    assert conclude(outcome, known).findings[0].next_command.split()[-3:-1] == [driver, loader]


@pytest.mark.parametrize(("system", "compiler"), [("debian", "g++-11"), ("ubuntu", "g++-13")])
def test_another_gcc_is_one_that_the_distribution_has(system: str, compiler: str) -> None:
    """Debian 12, where GCC 12 is the default, has no g++-13."""
    line = b"a.cpp:1:1: internal compiler error: in extract_insn, at recog.cc:2791\n"
    known = Circumstances(system=System((system,)))
    assert f"install {compiler} &&" in conclude(scan(io.BytesIO(line)), known).findings[0].next_command


def test_search_terms_repeat_no_word_and_take_no_end_of_a_sentence_for_a_name() -> None:
    assert search_terms("ninja: build stopped: subcommand failed.", "ninja") == (
        '"ninja: build stopped: subcommand failed."',
        "pytorch xpu ninja: build stopped: subcommand failed.",
    )


def test_an_error_that_nothing_knows_gets_search_terms() -> None:
    answer = explained("/home/me/src/aten/frob: error: the widget 'at::frobnicate_xpu' stands on its head")
    for finding in answer.findings:
        assert finding.cause.startswith("No rule fits.")
        assert finding.confidence < LIKELY
    assert answer.search_terms[0] == "\"the widget 'at::frobnicate_xpu' stands on its head\""
    assert not any("/home/me" in term for term in answer.search_terms)


def test_what_is_superseded_is_not_told() -> None:
    answer = explained(
        "ModuleNotFoundError: No module named 'yaml'",
        "CMake Error at cmake/Codegen.cmake:163 (message):",
        "  Failed to get generated_headers list",
    )
    assert [finding.id for finding in answer.findings] == ["codegen-failed-generated-cpp-list-wrong-python"]


def test_confidence_stays_between_0_and_1() -> None:
    for entry in shipped_rules().signatures:
        assert all(0 < matcher.confidence <= 1 for matcher in entry.match)


@pytest.mark.parametrize(
    ("system", "find", "install"),
    [
        ("debian", "sudo apt install apt-file && sudo apt-file update && apt-file search frobnicate.h",
         "sudo apt install zlib1g-dev"),
        ("fedora", "dnf provides '*/'frobnicate.h", "sudo dnf install zlib-devel"),
        ("rhel", "dnf provides '*/'frobnicate.h", "sudo dnf install zlib-devel"),
        ("suse", "zypper search --provides --match-exact frobnicate.h", "sudo zypper install zlib1g-dev"),
        ("arch", "apt-file search frobnicate.h", "sudo apt install zlib1g-dev"),
    ],
)  # fmt: skip
def test_how_a_header_is_found_and_installed(system: str, find: str, install: str) -> None:
    told = [
        explain_stream(
            io.BytesIO(f"a.cpp:1:10: fatal error: {header}: No such file or directory\n".encode()),
            Circumstances(System((system,))),
        )
        for header in ("frobnicate.h", "zlib.h")
    ]
    assert [one.findings[0].next_command for one in told] == [find, install]
