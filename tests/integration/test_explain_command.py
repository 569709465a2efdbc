"""``xpubuild explain`` as a program."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.documents import check
from support.explain_logs import embed

from xpubuild.engine.journal import Journal
from xpubuild.explain.document import explain_file
from xpubuild.explain.rules import shipped_rules

LINE = "ImportError: libze_loader.so.1: cannot open shared object file: No such file or directory"
RULE = "library-not-found"


def run(*arguments: str, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "xpubuild", "explain", *arguments]
    return subprocess.run(argv, input=data, capture_output=True, check=False, timeout=60)


def document(*arguments: str, data: bytes = b"", name: str = "explain") -> dict[str, Any]:
    result = run(*arguments, "--json", data=data)
    assert result.returncode == 0, result.stderr.decode()
    return check(json.loads(result.stdout), name)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "mein büild" / "a log.txt"
    path.parent.mkdir()
    path.write_bytes(embed([LINE], after=0))
    return path


def test_the_document_of_a_log(log: Path) -> None:
    found = document(str(log))
    assert found["first_error"]["line"] == 3001
    assert found["findings"][0]["id"] == RULE
    assert found["findings"][0]["line"] == 3001
    assert found == document("-", data=log.read_bytes())


def test_the_text_names_cause_fix_and_command(log: Path) -> None:
    result = run(str(log))
    text = result.stdout.decode()
    assert result.returncode == 0
    for part in ("First error", RULE, "certain", "Next:", "glibc"):
        assert part in text


def test_nothing_found_is_an_answer(tmp_path: Path) -> None:
    empty = tmp_path / "empty.log"
    empty.touch()
    assert document(str(empty)) == {
        "schema": "xpubuild.explain/1", "first_error": None, "findings": [], "search_terms": [], "lines": 0
    }  # fmt: skip
    result = run(str(empty))
    assert result.returncode == 0
    assert b"the log is empty" in result.stdout


def test_an_unknown_error_is_shown_with_search_terms() -> None:
    result = run("-", data=b"one\ntwo\nx.cpp:1:1: error: frobnication is not possible\nafter\n")
    text = result.stdout.decode()
    assert "The cause is not known" in text
    assert "frobnication is not possible" in text
    assert "Search for" in text


@pytest.mark.parametrize("arguments", [("no such.log",), (".",), ()])
def test_a_log_that_is_not_there(arguments: tuple[str, ...], tmp_path: Path) -> None:
    result = run(*(str(tmp_path / name) for name in arguments))
    assert result.returncode == 2
    assert b"fix:" in result.stderr
    assert b"Traceback" not in result.stderr


def test_the_list() -> None:
    listed = document("--list", name="explain-rules")["rules"]
    assert {entry["id"] for entry in listed} == {entry.id for entry in shipped_rules().rules}
    assert RULE.encode() in run("--list").stdout


def test_a_workspace_is_explained_by_the_log_of_its_failed_step(tmp_path: Path) -> None:
    root = tmp_path / "a workspace"
    (root / "logs").mkdir(parents=True)
    with Journal(root / "journal.db") as journal:
        journal.begin("torch.wheel", "f")
        journal.failed("torch.wheel", "it ended")
    (root / "logs" / "torch.wheel.log").write_text(f"start\n{LINE}\n")
    assert document(str(root))["findings"][0]["id"] == RULE
    (root / "logs" / "torch.wheel.log").unlink()
    result = run(str(root))
    assert result.returncode == 2
    assert b"fix:" in result.stderr


# ---- Real logs of tools that did their work: nothing may be found in them


CMAKE = """
cmake_minimum_required(VERSION 3.18)
project(calm CXX)
include(CheckIncludeFileCXX)
include(CheckCXXCompilerFlag)
check_include_file_cxx(no_such_error_header.h HAS_NO_SUCH_ERROR)
check_cxx_compiler_flag(-Werror=no-such-flag HAS_WERROR)
find_package(SYCL QUIET)
find_package(MKL)
message(WARNING "an error of this kind is only a warning, it failed nothing")
add_compile_options(-Wall -Werror=return-type)
add_executable(error_report error.cpp fatal_error.cpp)
enable_testing()
add_test(NAME fails_with_error COMMAND error_report)
"""
ERROR = "int unused_error; int error(int); int main() { int failed_error; return error(0); }\n"


def logged(path: Path, *argv: str, cwd: Path, env: dict[str, str] | None = None) -> Path:
    with path.open("ab") as log:
        subprocess.run(
            argv, cwd=cwd, stdout=log, stderr=subprocess.STDOUT, check=True, timeout=300,
            env={**os.environ, **(env or {})},
        )  # fmt: skip
    return path


def assert_calm(log: Path, at_least: int = 10) -> None:
    answer = explain_file(log)
    assert answer.lines >= at_least
    assert answer.findings == ()
    assert answer.first_error is None, answer.first_error


def tool(name: str) -> str:
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else name


@pytest.mark.parametrize("generator", ["Unix Makefiles", "Ninja"])
def test_configuring_building_and_testing_with_cmake(generator: str, tmp_path: Path) -> None:
    source = tmp_path / "quelle é"
    source.mkdir()
    (source / "CMakeLists.txt").write_text(CMAKE)
    (source / "error.cpp").write_text(ERROR)
    (source / "fatal_error.cpp").write_text("int error(int code) { return code; }\n")
    log = tmp_path / "cmake.log"
    logged(log, tool("cmake"), "-G", generator, "-S", ".", "-B", "build", cwd=source)
    logged(log, tool("cmake"), "--build", "build", "--verbose", cwd=source)
    logged(log, tool("ctest"), "--test-dir", "build", "-V", cwd=source)
    assert b"Failed" in log.read_bytes() or b"not found" in log.read_bytes()
    assert_calm(log, 30)


def test_pip_building_and_installing_a_package(tmp_path: Path) -> None:
    project = tmp_path / "pröject"
    project.mkdir()
    (project / "error_handling.py").write_text("class FatalError(Exception): pass\n")
    (project / "pyproject.toml").write_text(
        '[project]\nname = "error-handling"\nversion = "1.0"\n'
        '[tool.setuptools]\npy-modules = ["error_handling"]\n'
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    log = tmp_path / "pip.log"
    logged(log, sys.executable, "-m", "pip", "install", "-vvv", "--target", "env", "./pröject", cwd=tmp_path)
    assert_calm(log, 50)


def test_cloning_with_git(tmp_path: Path) -> None:
    log = tmp_path / "git.log"
    identity = {
        f"GIT_{who}_{what}": "x@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    origin = tmp_path / "origin"
    origin.mkdir()
    logged(log, "git", "init", "-b", "main", cwd=origin)
    for number in range(30):
        (origin / f"error_{number}.txt").write_text("fatal: error\n" * number)
    logged(log, "git", "add", ".", cwd=origin)
    logged(log, "git", "commit", "-m", "Fix error: failed builds", cwd=origin, env=identity)
    logged(log, "git", "clone", "--progress", "--no-local", "origin", "clone", cwd=tmp_path)
    logged(log, "git", "checkout", "HEAD~0", cwd=tmp_path / "clone")
    assert_calm(log)


WORDS = (
    *("the", "build", "torch", "error", "not", "found", "failed", "xpu", "sycl"),
    *("device", "cannot", "warning", "linked", "fatal"),
)


@pytest.mark.parametrize("seed", range(20))
def test_random_text(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)  # noqa: S311
    lines = [" ".join(chance.choice(WORDS) for _ in range(chance.randint(1, 14))) for _ in range(3000)]
    log = tmp_path / "random.log"
    log.write_text("\n".join(lines))
    answer = explain_file(log)
    assert answer.findings == ()


def test_the_real_configure_of_pytorch(tmp_path: Path) -> None:
    # PyTorch 2.6.0 (https://github.com/pytorch/pytorch, v2.6.0) configured for the CPU by this project, and
    # its first 40 edges; folders are renamed. The many "not found" and "Failed" of CMake are no errors here.
    packed = Path(__file__).parent.parent / "data/explain/calm/pytorch-2.6.0-configure.log.gz"
    log = tmp_path / "configure.log"
    log.write_bytes(gzip.decompress(packed.read_bytes()))
    assert b"Could NOT find" in log.read_bytes()
    assert_calm(log, 500)
