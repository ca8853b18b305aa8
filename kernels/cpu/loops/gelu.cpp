#include "kernels/cpu/loops/gelu.h"

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

}  // namespace

void gelu_row(float* out, const float* pre, int64_t n, Gelu gelu) {
  if (gelu == Gelu::kTanh) return tanh_gelu_row(out, pre, n);
  for (int64_t i = 0; i < n; ++i) out[i] = pre[i] * normal_cdf(pre[i]);
}

void gelu_backward_row(float* gradient, const float* pre, int64_t n, Gelu gelu) {
  if (gelu == Gelu::kTanh) return tanh_gelu_backward_row(gradient, pre, n);
  for (int64_t i = 0; i < n; ++i) {
    const float density = 0.39894228040143268F * std::exp(-0.5F * pre[i] * pre[i]);
    gradient[i] *= normal_cdf(pre[i]) + pre[i] * density;
  }
}

}  // namespace weft::cpu
