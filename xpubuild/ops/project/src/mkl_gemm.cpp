#include "mkl_gemm.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <mkl_cblas.h>
#include <mkl_service.h>

#include <algorithm>
#include <limits>

namespace ops {
namespace {

// Multiply-adds below which one thread does the whole product.
constexpr std::int64_t kGrainMultiplyAdds = 1 << 18;

// A matrix as BLAS wants it: one of its two strides is 1. `step_*` are element strides.
struct Operand {
  at::Tensor tensor;
  CBLAS_TRANSPOSE order;
  MKL_INT leading;
  std::int64_t step_row;
  std::int64_t step_column;
};

bool fits(std::int64_t stride, std::int64_t extent) {
  return stride >= std::max<std::int64_t>(extent, 1) && stride <= std::numeric_limits<MKL_INT>::max();
}

Operand as_operand(const at::Tensor& matrix) {
  const bool plain = matrix.stride(1) == 1 && fits(matrix.stride(0), matrix.size(1));
  const bool transposed = matrix.stride(0) == 1 && fits(matrix.stride(1), matrix.size(0));
  if (plain || !transposed) {
    const at::Tensor tensor = plain ? matrix : matrix.contiguous();
    const std::int64_t leading = plain ? matrix.stride(0) : matrix.size(1);
    return {tensor, CblasNoTrans, static_cast<MKL_INT>(leading), leading, 1};
  }
  return {matrix, CblasTrans, static_cast<MKL_INT>(matrix.stride(1)), 1, matrix.stride(1)};
}

void check(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2, "mkl_sgemm: takes two matrices, got ", a.dim(), "-d and ", b.dim(), "-d");
  TORCH_CHECK(
      a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat,
      "mkl_sgemm: takes float32, got ", a.scalar_type(), " and ", b.scalar_type());
  TORCH_CHECK(
      a.sym_size(1) == b.sym_size(0),
      "mkl_sgemm: shapes ", a.sym_sizes(), " and ", b.sym_sizes(), " cannot be multiplied");
}

}  // namespace

at::Tensor mkl_sgemm_meta(const at::Tensor& a, const at::Tensor& b) {
  check(a, b);
  return at::empty_symint({a.sym_size(0), b.sym_size(1)}, a.options());
}

at::Tensor mkl_sgemm(const at::Tensor& a, const at::Tensor& b) {
  check(a, b);
  const std::int64_t m = a.size(0);
  const std::int64_t n = b.size(1);
  const std::int64_t k = a.size(1);
  TORCH_CHECK(
      std::max({m, n, k}) <= std::numeric_limits<MKL_INT>::max(), "mkl_sgemm: a side is longer than 2^31-1");
  auto c = at::empty({m, n}, a.options());
  if (c.numel() == 0) {
    return c;
  }
  if (k == 0) {
    return c.zero_();
  }
  const Operand left = as_operand(a);
  const Operand right = as_operand(b);
  const float* lefts = left.tensor.const_data_ptr<float>();
  const float* rights = right.tensor.const_data_ptr<float>();
  float* results = c.mutable_data_ptr<float>();
  // The longer side of the result is cut into slices, one call of the sequential MKL each.
  const bool by_rows = m >= n;
  const std::int64_t extent = by_rows ? m : n;
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainMultiplyAdds / (k * (by_rows ? n : m)));
  at::parallel_for(0, extent, grain, [&](std::int64_t begin, std::int64_t end) {
    const auto length = static_cast<MKL_INT>(end - begin);
    cblas_sgemm(
        CblasRowMajor, left.order, right.order,
        by_rows ? length : static_cast<MKL_INT>(m), by_rows ? static_cast<MKL_INT>(n) : length,
        static_cast<MKL_INT>(k), 1.0F,
        lefts + (by_rows ? begin * left.step_row : 0), left.leading,
        rights + (by_rows ? 0 : begin * right.step_column), right.leading, 0.0F,
        results + begin * (by_rows ? n : 1), static_cast<MKL_INT>(n));
  });
  return c;
}

std::string mkl_version() {
  constexpr int kLength = 256;
  char text[kLength] = {};
  mkl_get_version_string(text, kLength);
  std::string version(text, strnlen(text, kLength));
  version.erase(version.find_last_not_of(' ') + 1);
  return version;
}

}  // namespace ops
