"""Proxies, certificates, and output that pip quotes: what is told, where, and what is none of it."""

from __future__ import annotations

import io

import pytest
from support.explain_logs import ordinary

from xpubuild.distribution import System
from xpubuild.doctor.registry import shipped
from xpubuild.explain.document import Circumstances, Explanation, conclude, explain_stream
from xpubuild.explain.load import shipped_rules
from xpubuild.explain.scan import scan
from xpubuild.explain.searchterms import search_terms

BEFORE = 50


def explained(*lines: str) -> Explanation:
    log = [*ordinary(BEFORE, 3), *lines, *ordinary(BEFORE, 4)]
    return explain_stream(io.BytesIO(("\n".join(log) + "\n").encode()))


RETRY = (
    "WARNING: Retrying (Retry(total=4, connect=None, read=None, redirect=None, status=None)) after "
    "connection broken by '{}': /simple/torch/"
)
PROXY = "ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: {}'))"
CERTIFICATE = (
    "SSLError(SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: {} "
    "(_ssl.c:1000)'))"
)


@pytest.mark.parametrize(
    "reason", [PROXY.format("403 Forbidden"), PROXY.format("407 Proxy Authentication Required"),
               CERTIFICATE.format("self-signed certificate in certificate chain")],
)  # fmt: skip
def test_a_second_try_that_went_well_is_no_failure(reason: str) -> None:
    answer = explained(RETRY.format(reason), "Collecting torch", "Successfully installed torch-2.8.0+xpu")
    assert answer.findings == ()


def test_an_expired_certificate_is_not_blamed_on_the_site() -> None:
    reason = CERTIFICATE.format("certificate has expired")
    answer = explained(RETRY.format(reason), "ERROR: No matching distribution found for torch==2.8.0")
    assert [finding.id for finding in answer.findings] == ["no-matching-distribution-new-python"]


def test_a_clone_of_cmake_that_the_proxy_refused() -> None:
    answer = explained(
        "fatal: unable to access 'https://github.com/intel/x.git/': CONNECT tunnel failed, response 403",
        "CMake Error at caffe2/CMakeLists.txt:1100 (message):",
        "  Fail to clone https://github.com/intel/torch-xpu-ops.git from git",
    )
    assert [finding.id for finding in answer.findings] == ["git-refused-by-proxy"]
    assert "--only network.proxy,network.reach" in answer.findings[0].next_command


def test_the_commands_name_checks_that_doctor_has() -> None:
    checks = [check.id for check in shipped()]
    known = {*checks, *(name.partition(".")[0] for name in checks)}
    for entry in shipped_rules().signatures:
        commands = entry.next.values() if isinstance(entry.next, dict) else [entry.next]
        for command in commands:
            _, _, names = command.partition("xpubuild doctor --only ")
            assert {name for name in names.split(";")[0].strip().split(",") if name} <= known, entry.id


@pytest.mark.parametrize(
    ("system", "tool"),
    [("ubuntu", "update-ca-certificates"), ("fedora", "update-ca-trust"), ("sles", "anchors")],
)
def test_a_certificate_is_added_as_the_distribution_does(system: str, tool: str) -> None:
    line = b"fatal: unable to access 'https://g/x/': SSL certificate problem: self-signed certificate\n"
    known = Circumstances(system=System((system,)))
    assert tool in conclude(scan(io.BytesIO(line)), known).findings[0].next_command


QUOTED = [
    "  error: subprocess-exited-with-error",
    "  \u00d7 Getting requirements to build wheel did not run successfully.",
    "  \u2502 exit code: 1",
    "  \u2570\u2500> [18 lines of output]",
    "      Traceback (most recent call last):",
    '        File "/tmp/build/setup.py", line 11, in <module>',
    "          import pkg_resources",
    "      ModuleNotFoundError: No module named 'pkg_resources'",
    "      [end of output]",
]


def test_a_finding_in_what_pip_quotes_is_at_its_own_line() -> None:
    answer = explained(*QUOTED)
    assert [finding.id for finding in answer.findings] == ["pkg-resources-removed-setuptools-82"]
    assert answer.findings[0].line == BEFORE + 8
    assert answer.first_error is not None
    assert answer.first_error.line == BEFORE + 8


def test_a_message_of_cmake_in_what_pip_quotes_is_still_joined() -> None:
    answer = explained(
        *QUOTED[:4],
        "      CMake Error at CMakeLists.txt:1 (cmake_minimum_required):",
        "        Compatibility with CMake",
        "        < 3.5 has been removed from CMake.",
    )
    assert answer.findings[0].id == "cmake-4-policy-minimum-protobuf"


def test_a_library_that_torch_itself_wants_is_no_matter_of_caches() -> None:
    answer = explained(
        '  File "/e/torch/__init__.py", line 409, in <module>',
        "    from torch._C import *  # noqa: F403",
        "ImportError: libsycl.so.8: cannot open shared object file: No such file or directory",
    )
    assert [finding.id for finding in answer.findings] == ["torch-import-sycl-runtime-not-found"]
    assert "rm -rf" not in answer.findings[0].next_command


def test_a_warning_of_cmake_about_mkl_is_none() -> None:
    answer = explained(
        "CMake Warning at cmake/x.cmake:3 (find_package):",
        '  Could not find a package configuration file provided by "MKL" with any of',
        "  the following names:",
        "    MKLConfig.cmake",
    )
    assert answer.findings == ()


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        (
            "fatal: unable to access 'https://git.example.org/pytorch.git/': Operation refused, response 418",
            "git",
            ('"Operation refused, response 418"', "pytorch xpu git Operation refused, response 418"),
        ),
        (
            "ERROR: cannot parse https://user:secret@index.example.org/simple/torch/ at 12345",
            "pip",
            ('"cannot parse index.example.org at"', "pytorch xpu pip cannot parse index.example.org at",
             "pytorch xpu index.example.org"),
        ),
    ],
)  # fmt: skip
def test_search_terms_keep_the_reason_and_not_the_address(
    text: str, kind: str, expected: tuple[str, ...]
) -> None:
    assert search_terms(text, kind) == expected
