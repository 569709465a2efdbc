#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace fused {

// Enough for any tensor met in practice: dimensions that can be merged do not count.
constexpr int kMaxDims = 12;

// How N tensors of one shape lie in memory. Dimension 0 is the innermost; strides count elements. The order of
// the dimensions follows the last tensor, which is an output. Trivially copyable: kernels take it by value.
template <int N>
struct Layout {
  int dims = 0;
  std::int64_t count = 1;
  std::int64_t sizes[kMaxDims] = {};
  std::int64_t strides[N][kMaxDims] = {};

  // Element offsets, one per tensor, of the element with this linear index.
  void offsets(std::int64_t index, std::int64_t (&result)[N]) const {
    for (int n = 0; n < N; ++n) {
      result[n] = 0;
    }
    for (int d = 0; d < dims; ++d) {
      const std::int64_t position = index % sizes[d];
      index /= sizes[d];
      for (int n = 0; n < N; ++n) {
        result[n] += position * strides[n][d];
      }
    }
  }
};

namespace detail {

template <int N>
bool merges(const Layout<N>& layout, const std::array<at::Tensor, N>& tensors, int dim) {
  const int last = layout.dims - 1;
  for (int n = 0; n < N; ++n) {
    if (tensors[n].stride(dim) != layout.strides[n][last] * layout.sizes[last]) {
      return false;
    }
  }
  return true;
}

}  // namespace detail

template <int N>
Layout<N> make_layout(const std::array<at::Tensor, N>& tensors) {
  const at::Tensor& leader = tensors[N - 1];
  std::vector<int> order(static_cast<std::size_t>(leader.dim()));
  for (std::size_t d = 0; d < order.size(); ++d) {
    order[d] = static_cast<int>(order.size() - 1 - d);
  }
  std::stable_sort(order.begin(), order.end(), [&](int left, int right) {
    return leader.stride(left) < leader.stride(right);
  });

  Layout<N> layout;
  layout.count = leader.numel();
  for (const int dim : order) {
    if (leader.size(dim) == 1) {
      continue;
    }
    if (layout.dims > 0 && detail::merges<N>(layout, tensors, dim)) {
      layout.sizes[layout.dims - 1] *= leader.size(dim);
      continue;
    }
    TORCH_CHECK(layout.dims < kMaxDims, "tensors with more than ", kMaxDims, " separate dimensions");
    layout.sizes[layout.dims] = leader.size(dim);
    for (int n = 0; n < N; ++n) {
      layout.strides[n][layout.dims] = tensors[n].stride(dim);
    }
    ++layout.dims;
  }
  return layout;
}

}  // namespace fused
