// GELU and its derivative, of which GEGLU also consists.
#pragma once

#include "kernels/backend.h"

namespace weft::cuda {

// Returns 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), as GPT-2 has it, or x Phi(x).
// [Hendrycks & Gimpel 2016, arXiv:1606.08415]
constexpr float kSqrt2OverPi = 0.7978845608028654F;
constexpr float kCubic = 0.044715F;

__device__ inline float gelu_value(float x, Gelu gelu) {
  if (gelu == Gelu::kErf) return 0.5F * x * (1.0F + erff(x * 0.7071067811865476F));
  return 0.5F * x * (1.0F + tanhf(kSqrt2OverPi * (x + kCubic * x * x * x)));
}

__device__ inline float gelu_derivative(float x, Gelu gelu) {
  if (gelu == Gelu::kErf) {
    const float density = 0.3989422804014327F * expf(-0.5F * x * x);
    return 0.5F * (1.0F + erff(x * 0.7071067811865476F)) + x * density;
  }
  const float t = tanhf(kSqrt2OverPi * (x + kCubic * x * x * x));
  return 0.5F * (1.0F + t) +
         0.5F * x * (1.0F - t * t) * kSqrt2OverPi * (1.0F + 3.0F * kCubic * x * x);
}

}  // namespace weft::cuda
