#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace ops {

// a @ b of two float32 matrices on the CPU, by cblas_sgemm of the MKL that is linked in here.
at::Tensor mkl_sgemm(const at::Tensor& a, const at::Tensor& b);
at::Tensor mkl_sgemm_meta(const at::Tensor& a, const at::Tensor& b);

// What that MKL says of itself.
std::string mkl_version();

}  // namespace ops
