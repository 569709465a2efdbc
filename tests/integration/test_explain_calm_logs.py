"""Real logs of tools that did their work: nothing may be found in them."""

from __future__ import annotations

import gzip
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from xpubuild.explain.document import explain_file

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
