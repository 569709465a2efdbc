"""The planned commands of the Python environment, and pip's failures explained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from support.files import script

from xpubuild.errors import (
    FetchError,
    NoSpaceError,
    SourceIntegrityError,
    ToolchainError,
    UnsatisfiableError,
    XpuBuildError,
)
from xpubuild.machine import make_env
from xpubuild.machine.envmark import MARK, read_mark, require_ours, write_mark
from xpubuild.machine.pip_failures import explain_pip_failure
from xpubuild.machine.python_environment import (
    env_python,
    install_command,
    repair_env_command,
    write_constraints,
)
from xpubuild.machine.pythons import PythonFacts, require_python
from xpubuild.machine.system import OsFacts

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


# ---- What venv is told, what its failures come to, and interpreters and folders that are refused


DEBIAN = OsFacts(id="debian")


def refuses(action: Callable[[], object]) -> None:
    with pytest.raises(XpuBuildError):
        action()


FACTS = PythonFacts("/p", version="3.12.1")


@pytest.mark.parametrize(
    ("version", "more"), [("3.9.2", []), ("3.12.1", []), ("3.13.0rc1", ["--without-scm-ignore-files"])]
)
def test_venv_is_run_apart_from_the_users_modules(tmp_path: Path, version: str, more: list[str]) -> None:
    env = tmp_path / "my env"
    env.mkdir()
    notes = f"""printf '%s\\n' "$@" >>'{tmp_path}/argv'; : >'{env}/pyvenv.cfg'"""
    make_env._run_venv(env, script(tmp_path / "python", notes), PythonFacts("/p", version=version))
    called = (tmp_path / "argv").read_text().splitlines()
    assert called == ["-I", "-m", "venv", "--without-pip", *more, str(env)]


@pytest.mark.parametrize(
    "says",
    [
        "true", "exit 3", "echo first; echo; echo last >&2; exit 1",
        "echo x; echo ' No space left on device'; exit 1",
        "for i in $(seq 30); do echo line $i; done; exit 1", "exec sleep 600",
    ],
    ids=range(6),
)  # fmt: skip
def test_a_venv_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, says: str) -> None:
    python = script(tmp_path / "python", says)
    if says.startswith("exec"):
        monkeypatch.setattr(make_env, "_DEADLINE_S", 0.3)
    (tmp_path / "env").mkdir()
    refuses(lambda: make_env._run_venv(tmp_path / "env", python, FACTS))


def test_a_python_that_no_pip_is_known_for(tmp_path: Path) -> None:
    refuses(lambda: make_env._put_pip(tmp_path / "env", PythonFacts("/p", version="3.99.0")))


def test_marks_and_what_is_not_ours(tmp_path: Path) -> None:
    env = tmp_path / "env"
    require_ours(env)
    env.mkdir()
    require_ours(env)
    assert read_mark(env) is None
    write_mark(env, {"state": "making", "base": "é"})
    assert (env / MARK).read_text() == '{\n "base": "\\u00e9",\n "state": "making"\n}\n'
    (env / "more").write_text("")
    require_ours(env)
    for text in ("[]", "{", ""):
        (env / MARK).write_text(text)
        assert read_mark(env) is None
        refuses(lambda: require_ours(env))
    (tmp_path / "file").write_text("")
    refuses(lambda: require_ours(tmp_path / "file"))
    (tmp_path / "link").symlink_to("nowhere")
    refuses(lambda: require_ours(tmp_path / "link"))
    drafts = tmp_path / "drafts"
    drafts.mkdir()
    (drafts / f".{MARK}.x").write_text("")
    require_ours(drafts)


GOOD = PythonFacts(
    "/usr/bin/python3", version="3.12.4", implementation="CPython", bits=64, headers=True, include="/i",
    base_executable="/usr/bin/python3.12",
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "needs"),
    [
        ({"error": "it crashed"}, ">=3.10"), ({"implementation": "PyPy"}, ">=3.10"), ({"bits": 32}, ">=3.10"),
        ({"version": "3.9.1"}, ">=3.10"), ({"version": "what"}, ">=3.10"), ({}, "<3.12"),
        ({"headers": False}, ">=3.10"), ({"headers": False, "version": "3.13.0rc1"}, ">=3.10"),
    ],
    ids=range(8),
)  # fmt: skip
def test_interpreters_that_cannot_be_used(changes: dict[str, object], needs: str) -> None:
    facts = PythonFacts(**{**vars(GOOD), **changes})  # type: ignore[arg-type]
    if facts.error:
        from xpubuild.machine.pythons import _require_kind

        refuses(lambda: _require_kind(facts))
        return
    refuses(lambda: require_python(Path(GOOD.executable), needs, system=DEBIAN, known=facts))


@pytest.mark.parametrize("version", ["3.12.4", "3.13.0+", "3.14.0rc1"])
def test_one_that_is_known_is_not_asked(version: str) -> None:
    facts = PythonFacts(**{**vars(GOOD), "version": version})
    assert require_python(Path(GOOD.executable), ">=3.10", system=DEBIAN, known=facts) is facts
