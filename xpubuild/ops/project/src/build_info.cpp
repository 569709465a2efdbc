#include "build_info.h"

#include "mkl_gemm.h"

namespace ops {
namespace {

#if defined(__INTEL_LLVM_COMPILER)
constexpr const char* kCompiler = "Intel oneAPI " __VERSION__;
#elif defined(__clang__)
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

}  // namespace

c10::Dict<std::string, std::string> build_info() {
  c10::Dict<std::string, std::string> info;
  // The value the headers ended with, not the one that was asked for: some libstdc++ builds fix it to 0.
  info.insert("cxx11_abi", std::to_string(_GLIBCXX_USE_CXX11_ABI));
  info.insert("compiler", kCompiler);
  info.insert("torch", OPS_TORCH_VERSION);
  info.insert("xpu", OPS_XPU ? "1" : "0");
  info.insert("mkl", mkl_version());
  return info;
}

}  // namespace ops
