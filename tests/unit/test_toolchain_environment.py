"""The planned commands of the Python environment, and pip's failures explained."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement

from xpubuild.errors import (
    FetchError,
    NoSpaceError,
    SourceIntegrityError,
    ToolchainError,
    UnsatisfiableError,
    XpuBuildError,
)
from xpubuild.machine.pip_failures import explain_pip_failure
from xpubuild.machine.python_environment import (
    env_python,
    install_command,
    repair_env_command,
    write_constraints,
)

ENV = "/data/my wörk/env"
INDEX = "https://download.pytorch.org/whl/cpu"


def test_the_commands_that_repair_and_fill_an_environment() -> None:
    repair, first = repair_env_command(ENV), install_command(ENV, "a.txt")
    assert repair.argv == ("xpubuild", "plumbing", "repair-env", ENV)
    assert repair.portable == ()
    assert first.argv[-1] == "a.txt"
    # A pip before 24.1, which python -m venv may bring, knows no raw progress.
    assert first.portable is not None
    assert "--require-hashes" in first.portable[0]
    assert "--progress-bar" not in first.portable[0]


def test_pip_is_held_to_hashes_and_wheels_and_asks_nothing() -> None:
    argv = install_command(ENV, "a.txt").argv
    assert argv[:6] == (env_python(ENV), "-I", "-u", "-m", "pip", "install")
    for option in ("--require-hashes", "--no-input", "--disable-pip-version-check"):
        assert option in argv
    assert argv[argv.index("--only-binary") + 1] == ":all:"
    assert "--no-cache-dir" not in argv


def test_the_recipes_index_is_tried_only_after_pip_as_configured() -> None:
    command = install_command(ENV, "torch.txt", indexes=[INDEX])
    assert not any("index" in word for word in command.argv)
    (second,) = command.alternatives
    assert second[: len(command.argv)] == command.argv
    assert second[len(command.argv) :] == (
        "--extra-index-url",
        INDEX,
        "--timeout",
        "15",
        "--retries",
        "1",
    )


def test_constraints_keep_what_was_built() -> None:
    text = write_constraints(
        {"torch": "2.8.0+xpu", "pytorch-triton-xpu": "3.4.0"}, forbidden=("triton", "torch")
    )
    assert text == "pytorch-triton-xpu==3.4.0\ntorch==2.8.0+xpu\ntriton<0\n"
    torch = Requirement(text.splitlines()[1]).specifier
    assert torch.contains("2.8.0+xpu")
    assert not torch.contains("2.8.0")
    assert not torch.contains("2.8.0+cpu")
    assert not Requirement("triton<0").specifier.contains("0.0.1.dev0", prereleases=True)
    assert write_constraints({}) == ""


# What pip 26.3 printed, with the index's host taken out.
MISSING_LOCAL = [
    "ERROR: Could not find a version that satisfies the requirement torch==2.13.0+cpu (from versions: 2.13)",
    "ERROR: No matching distribution found for torch==2.13.0+cpu",
]
RETRY = (
    "WARNING: Retrying (Retry(total=0, connect=None, read=None, redirect=None, status=None)) after connection"
    " broken by 'NameResolutionError(\"HTTPSConnection(host='{host}', port=443): Failed to resolve '{host}'"
    " ([Errno -2] Name or service not known)\")': /simple/x/"
)
HASH = [
    "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated ...",
    "    wheel==0.48.0 from file:///w/wheel-0.48.0-py3-none-any.whl#sha256=3217 (from -r one.txt (line 1)):",
    "        Expected sha256 0000",
    "             Got        3217",
    "",
]
IGNORED = (
    "ERROR: Ignored the following versions that require a different python version: "
    "3.6 Requires-Python >=3.11; 3.7 Requires-Python >=3.12,!=3.14.1; 3.7rc0 Requires-Python >=3.12"
)
NEEDS_NEWER = [
    IGNORED,
    "ERROR: Could not find a version that satisfies the requirement networkx==3.7 (from versions: 3.4.2)",
    "ERROR: No matching distribution found for networkx==3.7",
]
NOTHING_OFFERED = [
    "ERROR: Could not find a version that satisfies the requirement wheel==0.48.1 (from versions: none)",
    "ERROR: No matching distribution found for wheel==0.48.1",
]
UNTRUSTED = (
    "ERROR: Could not install packages due to an OSError: HTTPSConnectionPool(host='index.example', "
    "port=443): Max retries exceeded with url: /x (Caused by SSLError(SSLCertVerificationError(1, ...)))"
)
FULL = ["ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device", ""]


@pytest.mark.parametrize(
    ("tail", "kind", "words"),
    [
        (FULL, NoSpaceError, ["Errno 28"]),
        (HASH, SourceIntegrityError, ["wheel==0.48.0", "Expected sha256 0000; Got 3217"]),
        (
            ["ERROR: Hashes are required in --require-hashes mode, but they are missing from some"],
            SourceIntegrityError,
            ["Hashes are required"],
        ),
        (NEEDS_NEWER, UnsatisfiableError, ["networkx==3.7", "Requires-Python >=3.12"]),
        (
            ["ERROR: Package 'foo' requires a different Python: 3.10.13 not in '>=3.12'"],
            UnsatisfiableError,
            ["3.10.13 not in '>=3.12'"],
        ),
        (MISSING_LOCAL, ToolchainError, ["torch==2.13.0+cpu", "find-links"]),
        (NOTHING_OFFERED, ToolchainError, ["wheel==0.48.1", "pip config list"]),
        ([RETRY.format(host="index.example"), *NOTHING_OFFERED], FetchError, ["index.example", "PROXY"]),
        (
            [UNTRUSTED],
            FetchError,
            ["index.example", "PIP_CERT"],
        ),
        (
            ["ERROR: HTTP error 503 while getting https://u:p@index.example/a.whl (from x)"],
            FetchError,
            ["index.example"],
        ),
        (["ERROR: something new", "more"], ToolchainError, ["something new"]),
        (["Killed"], ToolchainError, ["Killed"]),
        ([], ToolchainError, ["printed nothing"]),
    ],
)
def test_failures(tail: list[str], kind: type[XpuBuildError], words: list[str]) -> None:
    error = explain_pip_failure(tail)
    assert type(error) is kind
    shown = " ".join([error.what, error.why, error.fix, *error.commands])
    for word in words:
        assert word in shown
    assert error.what
    assert error.why
    assert error.fix
