#include <sycl/sycl.hpp>

#include <ATen/Dispatch.h>
#include <ATen/OpMathType.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/DeviceGuard.h>
#include <c10/xpu/XPUStream.h>

#include <algorithm>

#include "fused/layout.h"
#include "fused/swiglu.h"
#include "vecmath/activation.h"

namespace fused {

// Kernels are named types in a named namespace: SYCL builds the kernel's name from them.
namespace kernels {

template <typename scalar_t>
struct SwigluForward {
  Layout<3> layout;
  const scalar_t* gates;
  const scalar_t* ups;
  scalar_t* results;

  void operator()(sycl::nd_item<1> item) const {
    using acc_t = at::opmath_type<scalar_t>;
    const auto step = static_cast<std::int64_t>(item.get_global_range(0));
    for (auto i = static_cast<std::int64_t>(item.get_global_id(0)); i < layout.count; i += step) {
      std::int64_t at[3];
      layout.offsets(i, at);
      const acc_t g = gates[at[0]];
      const acc_t u = ups[at[1]];
      results[at[2]] = static_cast<scalar_t>(vecmath::silu(g) * u);
    }
  }
};

template <typename scalar_t>
struct SwigluBackward {
  Layout<5> layout;
  const scalar_t* grads;
  const scalar_t* gates;
  const scalar_t* ups;
  scalar_t* grad_ups;
  scalar_t* grad_gates;

  void operator()(sycl::nd_item<1> item) const {
    using acc_t = at::opmath_type<scalar_t>;
    const auto step = static_cast<std::int64_t>(item.get_global_range(0));
    for (auto i = static_cast<std::int64_t>(item.get_global_id(0)); i < layout.count; i += step) {
      std::int64_t at[5];
      layout.offsets(i, at);
      const acc_t d = grads[at[0]];
      const acc_t g = gates[at[1]];
      const acc_t u = ups[at[2]];
      grad_ups[at[3]] = static_cast<scalar_t>(d * vecmath::silu(g));
      grad_gates[at[4]] = static_cast<scalar_t>(d * u * vecmath::silu_derivative(g));
    }
  }
};

}  // namespace kernels

namespace {

constexpr std::int64_t kGroup = 256;
// A launch stays far below 2^31 work items, which DPC++ assumes by default; kernels loop over the rest.
constexpr std::int64_t kMaxGroups = 65536;

template <typename Kernel>
void launch(const at::Tensor& on, std::int64_t count, const Kernel& kernel) {
  if (count == 0) {
    return;
  }
  const std::int64_t groups = std::min((count + kGroup - 1) / kGroup, kMaxGroups);
  const sycl::nd_range<1> range(
      sycl::range<1>(static_cast<std::size_t>(groups * kGroup)), sycl::range<1>(static_cast<std::size_t>(kGroup)));
  sycl::queue& queue = c10::xpu::getCurrentXPUStream(on.device().index()).queue();
  queue.parallel_for(range, kernel);
}

}  // namespace

at::Tensor swiglu_xpu(const at::Tensor& gate, const at::Tensor& up) {
  check_alike("up", up, gate);
  const c10::DeviceGuard guard(gate.device());
  auto result = at::empty_like(gate);
  const auto layout = make_layout<3>({gate, up, result});
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, gate.scalar_type(), "swiglu_xpu", [&] {
    launch(gate, layout.count, kernels::SwigluForward<scalar_t>{
        layout, gate.const_data_ptr<scalar_t>(), up.const_data_ptr<scalar_t>(),
        result.mutable_data_ptr<scalar_t>()});
  });
  return result;
}

std::tuple<at::Tensor, at::Tensor> swiglu_backward_xpu(
    const at::Tensor& grad, const at::Tensor& gate, const at::Tensor& up) {
  check_alike("up", up, gate);
  check_alike("grad", grad, gate);
  const c10::DeviceGuard guard(gate.device());
  auto grad_gate = at::empty_like(gate);
  auto grad_up = at::empty_like(up);
  const auto layout = make_layout<5>({grad, gate, up, grad_up, grad_gate});
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, gate.scalar_type(), "swiglu_backward_xpu", [&] {
    launch(gate, layout.count, kernels::SwigluBackward<scalar_t>{
        layout, grad.const_data_ptr<scalar_t>(), gate.const_data_ptr<scalar_t>(), up.const_data_ptr<scalar_t>(),
        grad_up.mutable_data_ptr<scalar_t>(), grad_gate.mutable_data_ptr<scalar_t>()});
  });
  return {grad_gate, grad_up};
}

}  // namespace fused
