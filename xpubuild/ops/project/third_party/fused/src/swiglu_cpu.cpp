#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "fused/layout.h"
#include "fused/swiglu.h"
#include "vecmath/activation.h"

namespace fused {
namespace {

// Elements below which another thread costs more than it saves; the figure ATen uses for its own loops.
constexpr std::int64_t kGrain = 32768;

// Whether every tensor is dense along the innermost dimension.
template <int N>
bool unit_strides(const Layout<N>& layout) {
  return std::all_of(layout.strides, layout.strides + N, [](const auto& strides) { return strides[0] == 1; });
}

// Calls element(offsets...) for every element, in parallel. The case of unit strides stands apart because only
// there the compiler can use vector instructions.
template <int N, typename Element>
void for_each(const Layout<N>& layout, const Element& element) {
  const std::int64_t inner = layout.dims > 0 ? layout.sizes[0] : 1;
  const bool dense = unit_strides(layout);
  at::parallel_for(0, layout.count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t start[N];
    while (begin < end) {
      layout.offsets(begin, start);
      const std::int64_t length = std::min(inner - begin % inner, end - begin);
      if (dense) {
#pragma omp simd
        for (std::int64_t i = 0; i < length; ++i) {
          element(i, start, [](std::int64_t) { return std::int64_t{1}; });
        }
      } else {
        for (std::int64_t i = 0; i < length; ++i) {
          element(i, start, [&](std::int64_t n) { return layout.strides[n][0]; });
        }
      }
      begin += length;
    }
  });
}

template <typename scalar_t>
void forward_loop(const at::Tensor& gate, const at::Tensor& up, const at::Tensor& result) {
  using acc_t = at::opmath_type<scalar_t>;
  const auto* gates = gate.const_data_ptr<scalar_t>();
  const auto* ups = up.const_data_ptr<scalar_t>();
  auto* results = result.mutable_data_ptr<scalar_t>();
  for_each(make_layout<3>({gate, up, result}), [=](std::int64_t i, const auto& start, const auto& stride) {
    const acc_t g = gates[start[0] + i * stride(0)];
    const acc_t u = ups[start[1] + i * stride(1)];
    results[start[2] + i * stride(2)] = static_cast<scalar_t>(vecmath::silu(g) * u);
  });
}

template <typename scalar_t>
void backward_loop(
    const at::Tensor& grad,
    const at::Tensor& gate,
    const at::Tensor& up,
    const at::Tensor& grad_gate,
    const at::Tensor& grad_up) {
  using acc_t = at::opmath_type<scalar_t>;
  const auto* grads = grad.const_data_ptr<scalar_t>();
  const auto* gates = gate.const_data_ptr<scalar_t>();
  const auto* ups = up.const_data_ptr<scalar_t>();
  auto* grad_ups = grad_up.mutable_data_ptr<scalar_t>();
  auto* grad_gates = grad_gate.mutable_data_ptr<scalar_t>();
  const auto layout = make_layout<5>({grad, gate, up, grad_up, grad_gate});
  for_each(layout, [=](std::int64_t i, const auto& start, const auto& stride) {
    const acc_t d = grads[start[0] + i * stride(0)];
    const acc_t g = gates[start[1] + i * stride(1)];
    const acc_t u = ups[start[2] + i * stride(2)];
    grad_ups[start[3] + i * stride(3)] = static_cast<scalar_t>(d * vecmath::silu(g));
    grad_gates[start[4] + i * stride(4)] = static_cast<scalar_t>(d * u * vecmath::silu_derivative(g));
  });
}

}  // namespace

at::Tensor swiglu_cpu(const at::Tensor& gate, const at::Tensor& up) {
  check_alike("up", up, gate);
  auto result = at::empty_like(gate);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, gate.scalar_type(), "swiglu", [&] { forward_loop<scalar_t>(gate, up, result); });
  return result;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_cpu(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  check_alike("up", up, gate);
  check_alike("grad", grad, gate);
  auto grad_gate = at::empty_like(gate);
  auto grad_up = at::empty_like(up);
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kHalf, at::kBFloat16, gate.scalar_type(), "swiglu_backward",
      [&] { backward_loop<scalar_t>(grad, gate, up, grad_gate, grad_up); });
  return {grad_gate, grad_up};
}

}  // namespace fused
