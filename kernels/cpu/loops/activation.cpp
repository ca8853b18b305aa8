#include "kernels/cpu/loops/activation.h"

#include <algorithm>
#include <cmath>

namespace weft::cpu {

namespace {

// The tanh form is x * sigmoid(2u) with u = sqrt(2/pi) * (x + 0.044715 x^3), because
// (1 + tanh u) / 2 = sigmoid(2u).
constexpr float kTwoSqrtTwoOverPi = 1.59576912160573F;
constexpr float kCubic = 0.044715F;

WEFT_VECTOR_CLONES void tanh_gelu_row(float* out, const float* pre, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = pre[i];
    out[i] = x * sigmoid(kTwoSqrtTwoOverPi * (x + kCubic * x * x * x));
  }
}

WEFT_VECTOR_CLONES void tanh_gelu_backward_row(float* gradient, const float* pre, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float x = pre[i];
    const float s = sigmoid(kTwoSqrtTwoOverPi * (x + kCubic * x * x * x));
    const float slope = kTwoSqrtTwoOverPi * (1.0F + 3.0F * kCubic * x * x);
    gradient[i] *= s + x * s * (1.0F - s) * slope;
  }
}

// Returns Phi(x), the normal distribution function.
inline float normal_cdf(float x) { return 0.5F * (1.0F + std::erf(x * 0.70710678118654752F)); }

// Returns max(x, 0), or its square.
inline float relu(float x, Activation activation) {
  const float positive = std::max(x, 0.0F);
  return activation == Activation::kRelu ? positive : positive * positive;
}

inline float relu_slope(float x, Activation activation) {
  if (activation == Activation::kRelu) return x > 0.0F ? 1.0F : 0.0F;
  return 2.0F * std::max(x, 0.0F);
}

}  // namespace

void activate_row(float* out, const float* pre, int64_t n, Activation activation) {
  if (activation == Activation::kGeluTanh) return tanh_gelu_row(out, pre, n);
  for (int64_t i = 0; i < n; ++i) {
    out[i] = is_gelu(activation) ? pre[i] * normal_cdf(pre[i]) : relu(pre[i], activation);
  }
}

void activate_backward_row(float* gradient, const float* pre, int64_t n, Activation activation) {
  if (activation == Activation::kGeluTanh) return tanh_gelu_backward_row(gradient, pre, n);
  for (int64_t i = 0; i < n; ++i) {
    if (!is_gelu(activation)) {
      gradient[i] *= relu_slope(pre[i], activation);
      continue;
    }
    const float density = 0.39894228040143268F * std::exp(-0.5F * pre[i] * pre[i]);
    gradient[i] *= normal_cdf(pre[i]) + pre[i] * density;
  }
}

}  // namespace weft::cpu
