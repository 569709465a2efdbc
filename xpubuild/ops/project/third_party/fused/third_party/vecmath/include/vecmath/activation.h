#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace vecmath {

inline double exp_nonpositive(double x) {
  return std::exp(x);
}

// e^x for x <= 0 without a call or a branch, so that compilers turn loops over it into vector code. Off by at most
// 2 units in the last place; 0 below -87.3, where float runs out of normal numbers.
//
// x = n ln 2 + r with |r| <= ln 2 / 2. ln 2 is split in two, the first part short enough for n * kLn2High to be
// exact. The polynomial is the Taylor series of e^r up to r^7, whose remainder is below 6e-9.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.3F;
  constexpr float kLog2E = 1.44269504088896341F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440054690583e-4F;
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits

  const float shifted = x * kLog2E + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * kLn2High) - n * kLn2Low;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  std::uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127U) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return x < kLowest ? 0.0F : p * scale;
}

// The exponential's argument is never positive, so that no finite x overflows.
template <typename T>
inline T sigmoid(T x) {
  const T decay = exp_nonpositive(-std::fabs(x));
  return (x >= T(0) ? T(1) : decay) / (T(1) + decay);
}

template <typename T>
inline T silu(T x) {
  return x * sigmoid(x);
}

template <typename T>
inline T silu_derivative(T x) {
  const T s = sigmoid(x);
  return s * (T(1) + x * (T(1) - s));
}

}  // namespace vecmath
