"""ops' SYCL library is compiled as the torch that it is for was: which libsycl, and which declarations."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support.files import script
from support.small_elf import library

from xpubuild.resources import ops_project_dir

_PROJECT = """\
cmake_minimum_required(VERSION 3.18)
project(probe NONE)
set(LibTorch_VERSION {version})
set(LibTorch_C10_XPU_LIBRARY "{library}")
add_library(torch::xpu SHARED IMPORTED)
include("{cmake}/SyclLibrary.cmake")
add_sycl_library(probe SOURCES probe.cpp DESTINATION probe)
"""
PREVIEW, PLAIN = "libsycl-preview.so.7", "libsycl.so.7"
OPTION, MACRO = "-fpreview-breaking-changes", "-D__INTEL_PREVIEW_BREAKING_CHANGES"


@pytest.mark.needs("cmake", "g++", "ninja")
@pytest.mark.parametrize(
    ("version", "runtime", "flags"),
    [
        ("2.4.1", PLAIN, set()),
        ("2.5.1", PREVIEW, {OPTION, MACRO}),
        ("2.5.1", PLAIN, {MACRO}),
        ("2.6.0", "libsycl.so.8", {MACRO}),
        ("2.7.1", PREVIEW, {OPTION, MACRO}),
        ("2.8.0", "libsycl.so.8", set()),
        ("2.14.0", "libsycl.so.9", set()),
    ],
)
def test_the_flags_are_those_of_torch(tmp_path: Path, version: str, runtime: str, flags: set[str]) -> None:
    torch = library(tmp_path / "libc10_xpu.so", needed=(runtime, "libstdc++.so.6"))
    compiler = script(tmp_path / "icpx-stand-in", "exit 0")
    (tmp_path / "probe.cpp").touch()
    text = _PROJECT.format(version=version, library=torch, cmake=ops_project_dir() / "cmake")
    (tmp_path / "CMakeLists.txt").write_text(text, "utf-8")
    done = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "b", "-G", "Ninja", f"-DOPS_SYCL_COMPILER={compiler}"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = (
        line for line in (tmp_path / "b/build.ninja").read_text("utf-8").splitlines() if " -fsycl " in line
    )
    assert set(line.split()) & {OPTION, MACRO} == flags
