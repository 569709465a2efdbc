#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <tuple>

namespace fused {

// silu(gate) * up. All arguments have one shape, dtype and device; strides are free.
at::Tensor swiglu_cpu(const at::Tensor& gate, const at::Tensor& up);
at::Tensor swiglu_xpu(const at::Tensor& gate, const at::Tensor& up);

// Gradients by gate and by up, where `grad` is the gradient by the result.
std::tuple<at::Tensor, at::Tensor> swiglu_backward_cpu(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);
std::tuple<at::Tensor, at::Tensor> swiglu_backward_xpu(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up);

// Symbolic sizes, so that the check also serves the meta kernels of a compiled graph.
inline void check_alike(const char* name, const at::Tensor& tensor, const at::Tensor& gate) {
  TORCH_CHECK(
      tensor.sym_sizes() == gate.sym_sizes(),
      "swiglu: ", name, " has shape ", tensor.sym_sizes(), ", but gate has ", gate.sym_sizes());
  TORCH_CHECK(
      tensor.scalar_type() == gate.scalar_type(),
      "swiglu: ", name, " is ", tensor.scalar_type(), ", but gate is ", gate.scalar_type());
  TORCH_CHECK(
      tensor.device() == gate.device(),
      "swiglu: ", name, " is on ", tensor.device(), ", but gate is on ", gate.device());
}

}  // namespace fused
