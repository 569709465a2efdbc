"""What upstream prints where it goes on without XPU, with the place each text comes from."""

from __future__ import annotations

# https://github.com/intel/torch-xpu-ops/blob/release/2.13/cmake/BuildFlags.cmake#L201
NOT_GCC = (
    "Not compiling with XPU. Currently only support GCC compiler on Linux and MSVC compiler on Windows as CXX"
    " compiler.\n"
)
# the same as a warning: https://github.com/intel/torch-xpu-ops/blob/release/2.14/cmake/BuildFlags.cmake#L36
NOT_GCC_WARNING = """\
CMake Warning at third_party/torch-xpu-ops/cmake/BuildFlags.cmake:36 (message):
  Not compiling with XPU.  Currently only support GCC compiler on Linux and
  MSVC compiler on Windows as CXX compiler.
Call Stack (most recent call first):
  third_party/torch-xpu-ops/CMakeLists.txt:42 (set_build_flags)

-- next
"""
# https://github.com/pytorch/pytorch/blob/v2.6.0/caffe2/CMakeLists.txt#L1105
NO_KERNELS = """\
CMake Warning at caffe2/CMakeLists.txt:1105 (message):
  Failed to include ATen XPU implementation target

-- next
"""
