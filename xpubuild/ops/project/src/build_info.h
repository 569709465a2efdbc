#pragma once

#include <ATen/core/Dict.h>

#include <string>

namespace ops {

// What this library was compiled with, as text: cxx11_abi, compiler, torch, xpu, mkl.
c10::Dict<std::string, std::string> build_info();

}  // namespace ops
