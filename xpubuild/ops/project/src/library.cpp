#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/library.h>

#include <tuple>

#include "build_info.h"
#include "fused/swiglu.h"
#include "mkl_gemm.h"

namespace {

at::Tensor swiglu_meta(const at::Tensor& gate, const at::Tensor& up) {
  fused::check_alike("up", up, gate);
  return at::empty_like(gate);
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_meta(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  fused::check_alike("up", up, gate);
  fused::check_alike("grad", grad, gate);
  return {at::empty_like(gate), at::empty_like(up)};
}

}  // namespace

TORCH_LIBRARY(xpubuild_ops, m) {
  m.def("swiglu(Tensor gate, Tensor up) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("swiglu_backward(Tensor grad, Tensor gate, Tensor up) -> (Tensor, Tensor)", {at::Tag::pt2_compliant_tag});
  m.def("mkl_sgemm(Tensor a, Tensor b) -> Tensor", {at::Tag::pt2_compliant_tag});
  m.def("mkl_version() -> str", &ops::mkl_version);
  m.def("build_info() -> Dict(str, str)", &ops::build_info);
}

TORCH_LIBRARY_IMPL(xpubuild_ops, CPU, m) {
  m.impl("swiglu", &fused::swiglu_cpu);
  m.impl("swiglu_backward", &fused::swiglu_backward_cpu);
  m.impl("mkl_sgemm", &ops::mkl_sgemm);
}

TORCH_LIBRARY_IMPL(xpubuild_ops, Meta, m) {
  m.impl("swiglu", &swiglu_meta);
  m.impl("swiglu_backward", &swiglu_backward_meta);
  m.impl("mkl_sgemm", &ops::mkl_sgemm_meta);
}
