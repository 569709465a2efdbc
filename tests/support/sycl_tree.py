"""A small source tree in the shape of PyTorch's: a setup.py that stops after CMake, SYCL command scripts.

Its CMake writes for each SYCL source a script beside the object and one device link for each library, as
torch-xpu-ops does; every text of it is our own. ``sycl_kernels`` is compiled for the requested GPUs,
``sycltla`` always for two.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from support.files import lay
from support.upstream import commit_all

_SETUP = """\
import os, subprocess, sys
here = os.path.dirname(os.path.abspath(__file__))
build = os.path.join(here, "build")
assert sys.argv[1:] == ["build", "--cmake", "--cmake-only"], sys.argv
cache = os.path.join(build, "CMakeCache.txt")
if os.path.exists(cache):
    os.remove(cache)
names = ("USE_XPU", "USE_XCCL", "USE_MKLDNN", "USE_KINETO", "TORCH_XPU_ARCH_LIST")
defines = [f"-D{name}={os.environ[name]}" for name in names if os.environ.get(name)]
compiler = f"-DCMAKE_CXX_COMPILER={os.environ['CXX']}"
sys.exit(subprocess.call(["cmake", "-GNinja", "-S", here, "-B", build, compiler, *defines]))
"""
_CMAKE = """\
cmake_minimum_required(VERSION 3.18)
project(torch CXX)
set(root $ENV{CMPLR_ROOT})
option(USE_XPU "" ON)
option(USE_XCCL "" ON)
if(NOT EXISTS ${root}/lib/libsycl.so)
  set(USE_XPU OFF CACHE BOOL "" FORCE)
  message(WARNING "Not compiling with XPU. Could NOT find SYCL. Suppress this warning with -DUSE_XPU=OFF.")
endif()
if(USE_XCCL AND NOT EXISTS $ENV{CCL_ROOT}/lib/libccl.so.2.0)
  set(USE_XCCL OFF CACHE BOOL "" FORCE)
  message(WARNING "OneCCL library not found!!")
endif()
if(DEFINED ENV{MKLROOT})
  set(mkl $ENV{MKLROOT})
else()
  get_filename_component(mkl ${root}/../../mkl/latest REALPATH)
endif()
find_library(ONEMKL mkl_sycl_dft HINTS ${mkl}/lib NO_DEFAULT_PATH)
set(host "-fPIC;-std=c++17")
set(device "-fsycl;-fsycl-targets=spir64_gen,spir64;-D_GLIBCXX_USE_CXX11_ABI=1")

function(sycl_library name targets)
  foreach(source ${ARGN})
    set(object ${CMAKE_BINARY_DIR}/CMakeFiles/${name}.dir/${source}.o)
    set(source_file ${CMAKE_SOURCE_DIR}/${source})
    configure_file(${CMAKE_SOURCE_DIR}/command.cmake.in ${object}.Release.cmake @ONLY)
    add_custom_command(OUTPUT ${object} COMMAND ${CMAKE_COMMAND} -D generated_file:STRING=${object}
      -P ${object}.Release.cmake)
    list(APPEND objects ${object})
  endforeach()
  set(linked ${CMAKE_BINARY_DIR}/CMakeFiles/${name}.dir/${name}_sycl_device_obj.o)
  add_custom_command(OUTPUT ${linked} DEPENDS ${objects}
    COMMAND ${root}/bin/icx ${device} -fsycl-link ${objects}
      -Xs "-device ${targets} -options -cl-poison-unsupported-fp64-kernels" -o ${linked})
  add_library(${name} STATIC kernel.cpp ${objects} ${linked})
endfunction()

if(USE_XPU)
  message(STATUS "Compile Intel GPU AOT Targets for ${TORCH_XPU_ARCH_LIST}")
  sycl_library(sycl_kernels "${TORCH_XPU_ARCH_LIST}" kernel.cpp other.cpp)
  sycl_library(sycltla "pvc,bmg" flash/sycltla/forward.cpp)
endif()
message(STATUS "  USE_XPU               : ${USE_XPU}")
message(STATUS "  USE_XCCL              : ${USE_XCCL}")
"""
_COMMAND = """\
set(source_file "@source_file@") # path
set(SYCL_host_compiler "@CMAKE_CXX_COMPILER@") # path
set(SYCL_executable "@root@/bin/icx") # path
set(SYCL_flags @device@) # list
set(SYCL_compile_definitions [==[USE_XPU]==]) # list
set(CMAKE_HOST_FLAGS @host@)
execute_process(COMMAND "${SYCL_executable}" -c "${source_file}" -o "${generated_file}" ${SYCL_flags})
"""


def make(tree: Path) -> str:
    files = {
        "setup.py": _SETUP,
        "CMakeLists.txt": _CMAKE,
        "command.cmake.in": _COMMAND,
        ".gitignore": "build/\n",
        "kernel.cpp": "int kernel() { return 1; }\n",
        "other.cpp": "int other() { return 2; }\n",
        "flash/sycltla/forward.cpp": "int forward() { return 3; }\n",
    }
    return commit_all(lay(tree, files), "small")


def recipe(tree: Path, commit: str, *, oneapi: str, beside: Sequence[str] = (), **env: Any) -> str:
    """Return the recipe of the tree at a commit for XPU; ``env`` are variables of its build."""
    names = ["compiler", "ccl"]
    needs = {"oneapi": oneapi, "oneapi_components": names, "oneapi_beside_compiler": [*beside], "disk_gib": 1}
    source = {"url": str(tree), "commit": commit, "submodules": False}
    build = {"env": {"TORCH_XPU_ARCH_LIST": "{arch}", "USE_MKLDNN": 1, "USE_XCCL": 0, **env}, "resume": True}
    document = {
        "schema": 1,
        "name": "small",
        "title": "a small tree",
        "release": "2.11.0",
        "target": "xpu",
        "arch": ["pvc"],
        "needs": needs,
        "env": {"USE_XPU": "{xpu}"},
        "components": {"torch": {"kind": "source", "dist": "torch", "source": source, "build": build}},
    }
    return yaml.safe_dump(document)
